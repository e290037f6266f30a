package outbound

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// A gateway knows a waiting answer by an id of ours. Until the answer is sent, that id stands for the answer on disk,
// which may be changed or withdrawn; for a day after that it stands for the sent message.

// named returns the message that a changes; empty: none.
func named(a relay.Action) relay.MessageID {
	switch a := a.(type) {
	case relay.Edit:
		return a.Message
	case relay.Delete:
		return a.Message
	case relay.React:
		return a.Message
	}
	return ""
}

// namesWaiting reports whether a changes a waiting answer. It returns an error if the answer is no longer known, or was
// too late to be sent.
func (who *Caller) namesWaiting(ctx context.Context, a relay.Action) (bool, error) {
	m := named(a)
	if !outbox.IsID(m) {
		return false, nil
	}
	r, ok, err := who.out.db.Outbox.Find(ctx, who.instance, m)
	switch {
	case err != nil:
		return false, internal(err)
	case !ok || r.State() == outbox.Late:
		return false, errNoMessage(a.Op())
	}
	return r.State() == outbox.Waiting, nil
}

// real returns a with the network's ids for the messages that it names. A reference to an answer that is not sent yet
// is left out, because there is no message.
func (who *Caller) real(ctx context.Context, a relay.Action) (relay.Action, error) {
	var failed error
	out := referring(a, func(m relay.MessageID) relay.MessageID {
		if !outbox.IsID(m) {
			return m
		}
		r, ok, err := who.out.db.Outbox.Find(ctx, who.instance, m)
		switch {
		case err != nil:
			failed = internal(err)
		case !ok && named(a) == m:
			failed = errNoMessage(a.Op())
		}
		return r.Message
	})
	return out, failed
}

// referring returns a with other messages in place of those that it answers or changes: the function of returns the
// replacement for each.
func referring(a relay.Action, of func(relay.MessageID) relay.MessageID) relay.Action {
	meta := func(m relay.Metadata) relay.Metadata {
		m.ReplyToMessageID, m.TelegramReplyTo = of(m.ReplyToMessageID), of(m.TelegramReplyTo)
		return m
	}
	switch a := a.(type) {
	case relay.Send:
		a.ReplyTo, a.Meta = of(a.ReplyTo), meta(a.Meta)
		return a
	case relay.SendMedia:
		a.ReplyTo, a.Meta = of(a.ReplyTo), meta(a.Meta)
		return a
	case relay.Prompt:
		a.ReplyTo, a.Meta = of(a.ReplyTo), meta(a.Meta)
		return a
	case relay.Edit:
		a.Message = of(a.Message)
		return a
	case relay.Delete:
		a.Message = of(a.Message)
		return a
	case relay.React:
		a.Message = of(a.Message)
		return a
	}
	return a
}

// change carries out r, which names an answer that was waiting when r came: an edit changes the waiting answer, a
// delete withdraws it, and a reaction to an answer that nobody can see yet does nothing. If the answer is being sent, r
// waits for that, and then applies to the message; errBehind: r's time was over first.
func (who *Caller) change(ctx context.Context, r relay.Request) (relay.Result, error) {
	m := named(r.Action)
	rec, ok, err := who.out.db.Outbox.Find(ctx, who.instance, m)
	if ok && rec.State() == outbox.Waiting && err == nil {
		// rests: none of the chat's answers is being sent until release is called.
		release, rests := who.out.Queue.seize(ctx, rec.Line())
		if !rests {
			return relay.Result{}, errBehind
		}
		if rec, ok, err = who.out.db.Outbox.Find(ctx, who.instance, m); ok && rec.State() == outbox.Waiting && err == nil {
			err = who.changeWaiting(ctx, rec, r.Action)
			release()
			return relay.Result{MessageID: m, Queued: true}, err
		}
		release()
	}
	switch {
	case err != nil:
		return relay.Result{}, internal(err)
	case !ok || rec.State() == outbox.Late:
		return relay.Result{}, errNoMessage(r.Action.Op())
	}
	t, err := who.allowed(ctx, r)
	if err != nil {
		return relay.Result{}, err
	}
	if e, ok := t.action.(relay.React); ok {
		return who.react(ctx, t, e, relay.Declined(who.speaksOf(r)))
	}
	return who.carryOut(ctx, t)
}

// changeWaiting applies a to a waiting answer, which nobody sends meanwhile: a delete withdraws it, an edit changes its
// text.
func (who *Caller) changeWaiting(ctx context.Context, r outbox.Record, a relay.Action) error {
	switch a := a.(type) {
	case relay.Delete:
		if _, err := who.out.db.Outbox.Change(ctx, r.Number, func(*outbox.Record) bool { return false }); err != nil {
			return internal(err)
		}
		who.out.Queue.forget(r.Line(), r.Number)
		who.out.Queue.recall(r, history.Dropped, "", history.Withdrawn)
	case relay.Edit:
		asked, err := requestOf(r)
		if err != nil {
			return internal(err)
		}
		asked.Action = withText(asked.Action, a.Content)
		frame, err := frameOf(asked)
		if err != nil {
			return internal(err)
		}
		_, err = who.out.db.Outbox.Change(ctx, r.Number, func(stored *outbox.Record) bool { stored.Frame = frame; return true })
		switch {
		case errors.Is(err, outbox.ErrTooMany):
			return relay.Refused("the answer waits, and there is no room for a longer one", nil)
		case err != nil:
			return internal(err)
		}
	}
	return nil
}

// textOf returns the text of a; withText returns a with another text.
func textOf(a relay.Action) string {
	switch a := a.(type) {
	case relay.Send:
		return a.Content
	case relay.SendMedia:
		return a.Caption
	}
	return ""
}

func withText(a relay.Action, text string) relay.Action {
	switch a := a.(type) {
	case relay.Send:
		a.Content = text
		return a
	case relay.SendMedia:
		a.Caption = text
		return a
	}
	return a
}
