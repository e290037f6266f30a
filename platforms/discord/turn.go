package discord

import (
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// request is one request of an action.
type request struct {
	method, endpoint string
	body             any
	// again: carried out twice it has the same effect as once.
	again bool
	// apart: its penalties are not the chat's. Renaming has a limit of minutes, all of its own.
	apart bool
}

// anyMessage stands for all messages of a chat: edits of all of them share a bucket.
const anyMessage = "1"

// WaitOpen implements platforms.Gatekeeper. Besides the limiter it waits for the bucket of edits, so
// that of a row of edits the last one leaves.
func (p *Platform) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	if err := p.turns.WaitOpen(ctx, chat); err != nil {
		return err
	}
	if err := p.rest.WaitOpen(ctx, http.MethodPatch, discordgo.EndpointChannelMessage(string(chat), anyMessage)); err != nil {
		return explained(err)
	}
	return nil
}

// call carries out one request.
func (p *Platform) call(ctx context.Context, t *turn.Turn, r request, out any) error {
	return t.Do(ctx, turn.Call{
		Do: func(ctx context.Context) error {
			return p.rest.Do(ctx, r.method, r.endpoint, r.body, out)
		},
		Again: r.again, Undoes: r.method != http.MethodPost, Apart: r.apart,
	})
}

// checkChat is errUnknownChat unless chat is spelled like one of Discord's ids.
func checkChat(chat relay.ChatID) error {
	if !rest.IsID(string(chat)) {
		return errUnknownChat
	}
	return nil
}
