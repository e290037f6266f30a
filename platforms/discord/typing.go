package discord

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingLasts is how long we let one "is typing…" stand before the next. Discord shows it for ten
// seconds; a gateway asks every two.
const typingLasts = 8 * time.Second

// Typing implements platforms.Typer. It leaves at once or not at all, at most one in typingLasts.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	if ctx.Err() != nil {
		return relay.Result{}, notSentIn(ctx)
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, 0)
	if errors.Is(err, errUnknownChat) {
		return relay.Result{}, err
	}
	if err != nil {
		return relay.Result{}, nil // dropped
	}
	defer t.leave()
	t.once = true
	r := request{method: http.MethodPost, path: channelPath(a.Chat) + "/typing"}
	if p.limits.opensIn(ctx, routeOf(r.method, r.path)) > 0 || !p.gate.Due(a.Chat, "typing", typingLasts) {
		return relay.Result{}, nil
	}
	err = t.call(ctx, r, nil)
	if err != nil && !answered(err, http.StatusTooManyRequests) {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}
