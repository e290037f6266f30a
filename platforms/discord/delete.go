package discord

import (
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Platform) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, a.Chat, pace.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // a deletion has no place in the chat's order: while it waits for its share, others may write
	err = p.call(ctx, t, request{method: http.MethodDelete, endpoint: discordgo.EndpointChannelMessage(string(a.Chat), string(a.Message)), again: true}, nil)
	if err != nil && !answered(err, http.StatusNotFound) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}
