package discord

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reactWait is how long a reaction waits for its turn and its bucket, which holds one in a quarter
// of a second. It is cosmetic.
const reactWait = 2 * time.Second

// React implements platforms.Reacter. Removing what is not there is success.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if !isID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	emoji := emojiInPath(a.Emoji)
	if emoji == "" {
		return relay.Result{}, errUnknownEmoji
	}
	if ctx.Err() != nil {
		return relay.Result{}, notSentIn(ctx)
	}
	until := time.Now().Add(reactWait)
	wait := reactWait
	if p.gate.Closed(a.Chat) { // in a penalty it is dropped
		wait = 0
	}
	r := request{method: http.MethodPut, path: messagePath(a.Chat, a.Message) + "/reactions/" + emoji + "/@me"}
	if a.Remove {
		r.method = http.MethodDelete
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, wait)
	if errors.Is(err, errUnknownChat) {
		return relay.Result{}, err
	}
	if err != nil {
		return relay.Result{}, rateLimited(0, err)
	}
	t.leave() // a reaction has no place in the chat's order: while it waits for its share, others may write
	t.once = true
	if d := p.limits.opensIn(ctx, routeOf(r.method, r.path)); d > time.Until(until) {
		return relay.Result{}, rateLimited(d, nil)
	}
	err = t.call(ctx, r, nil)
	var ae *apiError
	switch {
	case err == nil || a.Remove && refusedWith(err, codeUnknownEmoji):
		return relay.Result{MessageID: a.Message}, nil
	case answered(err, http.StatusTooManyRequests) && errors.As(err, &ae):
		return relay.Result{}, rateLimited(ae.RetryAfter, err)
	}
	return relay.Result{}, explained(err)
}

// emojiInPath is an emoji as it stands in a path: Unicode as it is, a custom one, written as in a
// message (<:name:id>) or bare, as name:id.
func emojiInPath(emoji string) string {
	emoji = strings.TrimSpace(emoji)
	if inner, ok := strings.CutPrefix(emoji, "<"); ok {
		inner = strings.TrimSuffix(inner, ">")
		inner = strings.TrimPrefix(inner, "a:")
		emoji = strings.TrimPrefix(inner, ":")
	}
	if emoji == "." || emoji == ".." { // would leave the path
		return ""
	}
	return url.PathEscape(emoji)
}
