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
	r := request{method: http.MethodDelete, path: messagePath(a.Chat, a.Message), again: true}
	if isID(string(a.Chat)) { // else enter says so
		if err := p.bucketOpen(ctx, r, timeFor(ctx)); err != nil {
			return relay.Result{}, explained(err)
		}
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()
	err = t.call(ctx, r, nil)
	if err != nil && !answered(err, http.StatusNotFound) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}
