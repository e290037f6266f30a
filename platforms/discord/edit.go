package discord

import (
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Edit implements platforms.Editor. Text over the limit edits the message to the first part and
// sends the rest as new messages, unless the text is unfinished; the result names the last.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	return p.turns.Edit(ctx, a, l, func(ctx context.Context, t *turn.Turn) error {
		err := p.call(ctx, t, request{
			method: http.MethodPatch, endpoint: discordgo.EndpointChannelMessage(string(a.Chat), string(a.Message)), again: true,
			body: message{Content: l.parts[0], Mentions: p.mentions()},
		}, nil)
		if err == nil {
			l.parts = l.parts[1:]
		}
		return err
	})
}
