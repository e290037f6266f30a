package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// callReserve of an action's time is left to the request when the gate opens late: one that
	// leaves with no time for its answer makes an outcome unknown that need not be.
	callReserve = 3 * time.Second
	// maxTries bounds the requests for one message when no deadline does.
	maxTries = 12
	// silenceFor is how long an action without a deadline may wait for the gate.
	silenceFor = time.Minute
)

// request is one request of an action.
type request struct {
	method, path string
	body         any
	// again: carried out twice it has the same effect as once.
	again bool
	// apart: its penalties are not the chat's. Renaming has a limit of minutes, all of its own.
	apart bool
}

// turn is one action's stay inside the gate of its chat, or outside of all of them if it has no
// chat. Not for use by several goroutines.
type turn struct {
	// Set once, by enter.
	p    *Platform
	chat relay.ChatID // empty: none
	kind pace.Kind
	once bool // no second try, whatever the reason

	paid    bool // the next request has its place in the gate already
	release func()
}

// anyMessage stands for all messages of a chat: edits of all of them share a bucket.
const anyMessage relay.MessageID = "1"

// timeFor is how long an action may wait for the gate.
func timeFor(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) - callReserve
	}
	return silenceFor
}

// WaitOpen implements platforms.Gatekeeper. Besides the gate it waits for the bucket of edits, so
// that of a row of edits the last one leaves.
func (p *Platform) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	if err := p.gate.WaitOpen(ctx, chat, timeFor(ctx)); err != nil {
		return err
	}
	if err := p.limits.waitOpen(ctx, routeOf(http.MethodPatch, messagePath(chat, anyMessage))); err != nil {
		return explained(err)
	}
	return nil
}

// enter waits for the chat's turn, at most for wait. The caller must leave. Errors are
// *relay.ActionError, not sent.
func (p *Platform) enter(ctx context.Context, chat relay.ChatID, kind pace.Kind, wait time.Duration) (*turn, error) {
	if !isID(string(chat)) {
		return nil, errUnknownChat
	}
	release, err := p.gate.Acquire(ctx, chat, kind, wait)
	if err != nil {
		return nil, err
	}
	return &turn{p: p, chat: chat, kind: kind, paid: true, release: release}, nil
}

func (t *turn) leave() { t.release() }

// call carries out one request. What certainly was not carried out, and what may be carried out
// twice, it tries again as long as ctx's deadline allows; the silences Discord demands it heeds.
func (t *turn) call(ctx context.Context, r request, out any) error {
	again := backoff.Backoff{First: 500 * time.Millisecond, Max: 4 * time.Second}
	var last, unclear error // why it was tried before; likewise with an unknown outcome
	for tries := 1; ; tries++ {
		if err := t.next(ctx); err != nil {
			return worst(unclear, waitedFor(last, err))
		}
		err := t.p.rest.do(ctx, r.method, routeOf(r.method, r.path), r.path, r.body, out)
		var ae *apiError
		if err == nil || !errors.As(err, &ae) {
			return err
		}
		last = err
		if ae.Sent == sentMaybe {
			unclear = err
		}
		once := t.once || tries == maxTries
		switch {
		case ae.Sent == sentRefused && ae.Status == http.StatusTooManyRequests:
			t.penalised(r, ae)
			if once {
				return worst(unclear, err)
			}
		case ae.Sent == sentNever && ae.RetryAfter > 0: // by the limits: not before the deadline
			return worst(unclear, err)
		case (ae.Sent == sentNever || ae.Sent == sentMaybe && r.again) && !once:
			d := again.Next()
			if ctx.Err() != nil || d > timeFor(ctx) || !backoff.Pause(ctx, d) {
				return worst(unclear, err)
			}
		case ae.Sent == sentRefused && r.method != http.MethodPost: // it is as if it had never been asked for
			return err
		default:
			return worst(unclear, err)
		}
	}
}

// next waits for the gate, for a second request of the turn on.
func (t *turn) next(ctx context.Context) error {
	if !t.paid && t.chat != "" {
		if err := t.p.gate.Next(ctx, t.chat, t.kind, timeFor(ctx)); err != nil {
			return err
		}
	}
	t.paid = false
	if ctx.Err() != nil {
		return notSentIn(ctx)
	}
	return nil
}

// penalised closes the gate for as long as a 429 demands.
func (t *turn) penalised(r request, ae *apiError) {
	d := max(ae.RetryAfter, leastPenalty)
	switch {
	case ae.Global:
		t.p.gate.PenaliseBot(d)
	case t.chat != "" && !r.apart:
		t.p.gate.Penalise(t.chat, d)
	}
}

// worst is the error of a row of tries that ended with err: if the outcome of one of them is
// unknown, so is that of all.
func worst(unclear, err error) error {
	if unclear == nil {
		return err
	}
	return unclear
}

// waitedFor is why an action that may not be tried again in time failed: for the reason it was to
// be tried again, with the time the gate named.
func waitedFor(last, refusal error) error {
	if last == nil {
		return refusal
	}
	out, gate := new(relay.ActionError), new(relay.ActionError)
	if errors.As(explained(last), &out) && errors.As(refusal, &gate) {
		copied := *out
		copied.RetryAfter = max(copied.RetryAfter, gate.RetryAfter)
		return &copied
	}
	return refusal
}

// routeOf is the route of a request: its method and its path without any id but the top-level one.
// The token in a web hook's path is one, and is told apart without being shown.
func routeOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range segments {
		switch {
		case i == 2 && segments[0] == "webhooks":
			sum := sha256.Sum256([]byte(segments[i]))
			segments[i] = hex.EncodeToString(sum[:8])
		case i == 2 && segments[0] == "interactions":
			segments[i] = ":token"
		case i > 1 && segments[i-1] == "reactions":
			segments[i] = ":emoji"
		case i > 1 && isID(segments[i]), i == 1 && segments[0] == "interactions":
			segments[i] = ":id"
		}
	}
	return method + " /" + strings.Join(segments, "/")
}

// isID reports whether s is one of Discord's ids. Nothing else may stand in a path.
func isID(s string) bool {
	_, err := parseSnowflake(s)
	return err == nil
}

func channelPath(chat relay.ChatID) string { return "/channels/" + string(chat) }

func messagePath(chat relay.ChatID, m relay.MessageID) string {
	return channelPath(chat) + "/messages/" + string(m)
}
