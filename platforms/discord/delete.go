package discord

import (
	"context"
	"net/http"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Platform) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	if !isID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	t.leave() // a deletion has no place in the chat's order: while it waits for its share, others may write
	err = t.call(ctx, request{method: http.MethodDelete, path: messagePath(a.Chat, a.Message), again: true}, nil)
	if err != nil && !answered(err, http.StatusNotFound) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}
