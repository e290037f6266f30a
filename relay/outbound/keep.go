package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// keepWithin is how much of an action's time is reserved for storing an answer that was not sent. A call that a network
// is still handling then has an unknown outcome.
const keepWithin = 1750 * time.Millisecond

// behindFor is how long an action waits behind waiting answers.
const behindFor = 20 * time.Second

// errBehind is the error of an action that would have overtaken a waiting answer, or whose time was over while the
// chat's answers were being sent.
var errBehind = relay.Later("not sent in time", nil)

// answers reports whether a is the final answer of a turn: gateways send it with a sound (Notify). From a gateway that
// has never done so (marksLast is false), every message counts except those that report progress.
func answers(a relay.Action, marksLast bool) bool {
	switch a.(type) {
	case relay.Send, relay.SendMedia:
		m := metaOf(a)
		return m.Notify || !marksLast && !m.NonConversational
	}
	return false
}

// idle reports whether a only reports progress, so that it is useless once an answer waits in its chat.
func idle(a relay.Action) bool {
	switch a := a.(type) {
	case relay.Typing:
		return true
	case relay.Draft:
		return !a.Final
	case relay.Send:
		return a.Meta.NonConversational && !a.Meta.Notify
	}
	return false
}

// keeps reports whether a final answer that failed with err is stored: it certainly was not sent, for a reason that
// passes. A refusal for good is left to the gateway.
func keeps(a relay.Action, marksLast bool, err error) bool {
	ae := relay.Explain(err)
	return ae != nil && ae.Outcome == relay.NotSent && len(ae.MessageIDs) == 0 && ae.Retried() && answers(a, marksLast)
}

// marksLast reports whether the instance's gateway has ever marked an answer as the last.
func (who *Caller) marksLast() bool {
	_, ok := who.out.marking.Load(who.instance)
	return ok
}

// lasts reports whether a is worth waiting for: a final answer, or one that waited already.
func (who *Caller) lasts(a relay.Action) bool {
	_, waited := who.attachment.(absent)
	return waited || who.out.Queue.keep > 0 && answers(a, who.marksLast())
}

// learn notes that the gateway marks its last answers, if a is one that is marked.
func (who *Caller) learn(a relay.Action) {
	switch a.(type) {
	case relay.Send, relay.SendMedia:
		if metaOf(a).Notify {
			who.out.marking.LoadOrStore(who.instance, nil)
		}
	}
}

// keeps reports whether the action is stored that failed with err.
func (a *action) keeps(err error) bool {
	return a.who.out.Queue.keep > 0 && keeps(a.request.Action, a.who.marksLast(), err)
}

// keep stores a final answer that was not sent because of failed, and returns the result for its gateway: the answer is
// on disk. If it cannot be stored, it returns failed.
func (a *action) keep(ctx context.Context, r relay.Request, failed error) (relay.Result, error) {
	who, q := a.who, a.who.out.Queue
	if !a.keeps(failed) {
		return relay.Result{}, failed
	}
	at := a.place()
	if who.out.bots.Bot(at.Bot) == nil { // nobody can say which bot is meant
		return relay.Result{}, failed
	}
	rec := outbox.Record{
		Instance: who.instance, Tenant: who.tenant, Gateway: who.gateway, Bot: at.Bot, Chat: at.ID, Thread: r.Action.Within(),
		Op: r.Action.Op(), At: a.came.UTC(), Why: relay.Explain(failed).Public,
	}
	if m, ok := r.Action.(relay.SendMedia); ok {
		id, _, err := who.out.files.Put(ctx, who.instance, a.file.Name, a.file.Size, io.NewSectionReader(a.file.Content, 0, a.file.Size))
		if err != nil {
			return relay.Result{}, a.notKept(err, failed)
		}
		rec.File, m.SourceURL = id, relay.MediaPath+"/"+string(id)
		r.Action = m
	}
	frame, err := frameOf(r)
	if err == nil {
		rec.Frame = frame
		rec, err = who.out.db.Outbox.Add(ctx, rec)
	}
	if err != nil {
		return relay.Result{}, a.notKept(err, failed)
	}
	q.push(rec)
	who.out.counters.Add(count.OutboxStored, 1)
	who.out.log.Info("an answer waits for its network", "answer", rec.ID, "instance", who.instance, "bot", at.Bot.String(), "err", failed)
	return relay.Result{MessageID: rec.ID, Queued: true}, nil
}

// notKept counts an answer that could not be stored because of err, and returns the error for its gateway.
func (a *action) notKept(err, failed error) error {
	if errors.Is(err, outbox.ErrTooMany) {
		a.who.out.counters.Add(count.OutboxFull, 1)
	}
	a.who.out.log.Warn("an answer could not be stored; its gateway is told that it was not sent", "instance", a.who.instance, "err", err)
	return failed
}

// frameOf returns r as a frame, in the form in which a gateway sends it.
func frameOf(r relay.Request) (json.RawMessage, error) {
	line, err := wire.Encode(wire.Outbound{Request: r})
	return json.RawMessage(bytes.TrimSuffix(line, []byte("\n"))), err
}
