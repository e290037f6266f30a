package telegram

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// callReserve of an action's time is left to the call when the gate opens late: a request
	// that leaves with no time for its answer makes an outcome unknown that need not be.
	callReserve = 3 * time.Second
	// leastPenalty is how long a chat is left alone after a 429 that names no time.
	leastPenalty = time.Second
	// maxTries bounds the calls for one message when no deadline does.
	maxTries = 12
	// silenceFor is how long an action without a deadline may wait for the gate.
	silenceFor = time.Minute
)

// turn is one action's stay inside the gate of its chat. Not for use by several goroutines.
type turn struct {
	// Set once, by enter.
	p    *Platform
	kind pace.Kind
	once bool // no second try, whatever the reason

	chat    relay.ChatID
	moved   bool // chat is not the one asked for: it was upgraded to a supergroup
	paid    bool // the next call has its place in the rates already
	release func()
}

// patience is how long an action may wait for the gate.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) - callReserve
	}
	return silenceFor
}

// WaitOpen implements platforms.Gatekeeper.
func (p *Platform) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.gate.WaitOpen(ctx, chat, patience(ctx))
}

// enter waits for the chat's turn, at most for wait. The caller must leave. Errors are
// *relay.ActionError, not sent.
func (p *Platform) enter(ctx context.Context, chat relay.ChatID, kind pace.Kind, wait time.Duration) (*turn, error) {
	if _, err := strconv.ParseInt(string(chat), 10, 64); err != nil {
		return nil, errUnknownChat
	}
	release, err := p.gate.Acquire(ctx, chat, kind, wait)
	if err != nil {
		return nil, err
	}
	return &turn{p: p, kind: kind, chat: chat, paid: true, release: release}, nil
}

func (t *turn) leave() { t.release() }

// call carries out one method on the turn's chat. What certainly was not sent it tries again as
// long as ctx's deadline allows, and what the API says about the chat it heeds: a demand for
// silence, a new id. Nothing with an unknown outcome is repeated.
func (t *turn) call(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	again := backoff.Backoff{First: 500 * time.Millisecond, Max: 4 * time.Second}
	var last error
	for tries := 1; ; tries++ {
		if !t.paid {
			if err := t.p.gate.Next(ctx, t.chat, t.kind, patience(ctx)); err != nil {
				return waitedFor(last, err)
			}
		}
		t.paid = false
		if ctx.Err() != nil {
			return notSentIn(ctx)
		}
		params["chat_id"] = string(t.chat)
		err := t.p.client.call(ctx, method, params, out)
		t.p.heed(ctx, t.chat, t.kind, err)
		var ae *apiError
		if err == nil || !errors.As(err, &ae) {
			return err
		}
		last = err
		once := t.once || tries == maxTries
		switch {
		case limited(err):
			if once {
				return err
			}
		case ae.Sent == sentRefused && ae.MigrateTo != 0 && !t.moved && params["message_id"] == "":
			delete(params, "reply_parameters") // as with message_id: the message stayed in the old chat
			if err := t.move(ctx, ae.MigrateTo); err != nil {
				return err
			}
		case ae.Sent == sentNever && !once:
			d := again.Next()
			if ctx.Err() != nil || d > patience(ctx) || !backoff.Pause(ctx, d) {
				return err
			}
		default:
			return err
		}
	}
}

// heed tells the gate what the API's answer to an action says about it: err is nil, or why the call
// had no result.
func (p *Platform) heed(ctx context.Context, chat relay.ChatID, kind pace.Kind, err error) {
	var ae *apiError
	switch {
	case err == nil:
		p.gate.Passed(kind)
	case limited(err) && errors.As(err, &ae):
		p.gate.Refused(chat, kind, platforms.Behalf(ctx), max(ae.RetryAfter, leastPenalty))
	}
}

// waitedFor is why an action that may not be tried again in time failed: for the reason it was
// to be tried again, with the time the gate named.
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

// move takes the turn to the chat's new id.
func (t *turn) move(ctx context.Context, to int64) error {
	t.release()
	t.release = func() {}
	t.chat, t.moved = chatID(to), true
	release, err := t.p.gate.Acquire(ctx, t.chat, t.kind, patience(ctx))
	if err != nil {
		return err
	}
	t.release, t.paid = release, true
	return nil
}

// movedTo is the chat's new id if it has one.
func (t *turn) movedTo() relay.ChatID {
	if t.moved {
		return t.chat
	}
	return ""
}

// messageNumber is the API's number of a message; ok is false when id is no number of one. The id
// of an edit names the message that was edited.
func messageNumber(id relay.MessageID) (number string, ok bool) {
	number, _, _ = strings.Cut(string(id), editMark)
	n, err := strconv.ParseInt(number, 10, 64)
	return number, err == nil && n > 0
}
