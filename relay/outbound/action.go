package outbound

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/session"
)

// allowedFor is how long a verdict of the gate holds for an action: after a longer wait the gate is asked once more.
const allowedFor = time.Second

// action is one request of a gateway that is being carried out; it implements session.Action.
type action struct {
	// Set once, by Caller.Action.
	who     *Caller
	request relay.Request
	line    relay.Chat // the chat in whose order the session carries the request out
	came    time.Time

	// Set by Allow.
	target target
	at     time.Time // when it was allowed
	// waits: the action changes an answer that waits. unjudged is why the gate could not judge a final answer now; nil:
	// it could. An unjudged answer is stored.
	waits    bool
	unjudged error

	file relay.File // of a send_media; set by Do
}

// Action implements session.Handler.
func (who *Caller) Action(ctx context.Context, r relay.Request) session.Action {
	a := &action{who: who, request: r, line: who.line(ctx, r), came: time.Now()}
	who.learn(r.Action)
	a.heard(delivery.Alive)
	return a
}

// Line implements session.Action.
func (a *action) Line() relay.Chat { return a.line }

// Allow implements session.Action. A follow-up names no chat; the gate is asked about it when it is carried out.
func (a *action) Allow(ctx context.Context) (err error) {
	a.who.attachment.Asks(ctx, a.request)
	if _, ok := a.request.Action.(relay.FollowUp); ok {
		return nil
	}
	a.at = time.Now()
	if a.waits, err = a.who.namesWaiting(ctx, a.request.Action); a.waits && err == nil {
		return nil
	}
	if err == nil {
		a.target, err = a.who.allowed(platforms.For(ctx, a.who.instance), a.request)
	}
	if a.keeps(err) {
		a.unjudged = err
		return nil
	}
	if err != nil {
		a.heard(signOf(a.request.Action, err))
		return a.who.failed(a.request.Action, err)
	}
	a.who.keepProfile(ctx, a.place(), a.target.action)
	return nil
}

// place returns the chat that the action is about: the chat of its target or, if the gate could not judge it, its line.
func (a *action) place() relay.Chat {
	if a.target.bot == nil {
		return a.line
	}
	return relay.Chat{Bot: a.target.bot.ID(), ID: a.target.action.Target()}
}

// Do implements session.Action: it finds the file to send, waits behind the chat's waiting answers and for its limiter,
// lets the session pick the newest request, carries that out, and stores a final answer that was not sent.
func (a *action) Do(ctx context.Context, pick session.Pick) (relay.Result, error) {
	who := a.who
	trying, cancel := sooner(ctx)
	defer cancel()
	done, err := a.find(trying)
	defer done()
	useless := err == nil && idle(a.request.Action) && who.out.Queue.Holds(a.place())
	if err == nil && !useless {
		err = a.wait(platforms.For(trying, who.instance))
	}
	if err != nil && !a.keeps(err) {
		return relay.Result{}, who.failed(a.request.Action, err)
	}
	running, r, ok := pick()
	if !ok || useless {
		return relay.Result{}, nil // the session answers; or there is nothing to do
	}
	var res relay.Result
	if err == nil {
		doing, cancel := sooner(running)
		defer cancel()
		res, err = a.do(platforms.For(doing, who.instance), r)
	}
	if err != nil {
		res, err = a.keep(context.WithoutCancel(running), r, err)
	}
	a.heard(signOf(r.Action, err))
	if _, ok := r.Action.(relay.FollowUp); !ok {
		at := a.place()
		who.recall(who.out.bots.Bot(at.Bot), at.ID, r.Action, res, err)
	}
	if err != nil {
		return relay.Result{}, who.failed(r.Action, err)
	}
	if res.Queued {
		return res, nil
	}
	who.out.counters.Add(count.ActionOK, 1)
	if isMessage(r.Action) {
		who.out.counters.Add(count.MessageSent, 1)
	}
	return res, nil
}

// sooner returns a context that ends keepWithin before ctx, so that a final answer can still be stored.
func sooner(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-keepWithin))
}

// wait waits until the action may leave: behind the answers that wait in its chat, and within the chat's rate limit. A
// final answer does not wait behind others: it joins them.
func (a *action) wait(ctx context.Context) error {
	q := a.who.out.Queue
	switch {
	case a.unjudged != nil:
		return a.unjudged
	case a.waits || !waits(a.request.Action):
		return nil
	case q.Holds(a.place()) && (a.keeps(errBehind) || !q.passes(ctx, a.place(), a.came.Add(behindFor))):
		return errBehind
	}
	g, ok := a.target.bot.(platforms.Limited)
	if !ok {
		return nil
	}
	err := g.WaitOpen(ctx, a.target.action.Target())
	if _, ok := errors.AsType[*relay.ActionError](err); err != nil && !ok { // nothing has left yet, whatever the error
		err = relay.Later("not sent in time", err)
	}
	return err
}

// isMessage reports whether a person reads a as a message.
func isMessage(a relay.Action) bool {
	switch a.(type) {
	case relay.Send, relay.FollowUp, relay.SendMedia, relay.Prompt:
		return true
	}
	return false
}

// waits reports whether a waits for its chat's rate limit. Typing, reactions and drafts are useless later.
func waits(a relay.Action) bool {
	switch a.(type) {
	case relay.Typing, relay.React, relay.Draft:
		return false
	}
	return true
}

// do carries out r: the action's own request, or a newer one that replaced it. If the gate's verdict is older than
// allowedFor, the gate is asked once more.
func (a *action) do(ctx context.Context, r relay.Request) (_ relay.Result, err error) {
	if a.waits {
		return a.who.change(ctx, r)
	}
	if r.Action, err = a.who.real(ctx, r.Action); err != nil {
		return relay.Result{}, err
	}
	t := a.target
	switch act := r.Action.(type) {
	case relay.FollowUp:
		return a.who.followUp(ctx, act)
	case relay.Edit, relay.Typing, relay.Draft: // r may be newer than the request that Allow judged, with another text
		t.action = act.Aimed(t.action.Target())
	}
	if a.who.attachment.Revoked() || time.Since(a.at) > allowedFor {
		if t, err = a.who.allowed(ctx, r); err != nil {
			return relay.Result{}, err
		}
	}
	switch act := t.action.(type) {
	case relay.SendMedia:
		act.File = a.file
		t.action = act
	case relay.Prompt:
		return a.who.ask(ctx, t, act)
	case relay.React:
		return a.who.react(ctx, t, act, relay.Declined(a.who.speaksOf(r)))
	}
	return a.who.carryOut(ctx, t)
}

// find finds the file that a send_media names, before it waits for the chat's limiter, so that nobody waits for a slow
// server. done releases the file, and is never nil.
func (a *action) find(ctx context.Context) (done func(), err error) {
	t := a.target
	if t.bot == nil { // the gate could not judge it
		t = target{bot: a.who.out.bots.Bot(a.line.Bot), action: a.request.Action}
	}
	a.file, done, err = a.who.source(ctx, t)
	return done, err
}

// source returns the file of t, if it has one. done releases it, and is never nil.
func (who *Caller) source(ctx context.Context, t target) (f relay.File, done func(), err error) {
	m, ok := t.action.(relay.SendMedia)
	if !ok {
		return f, func() {}, nil
	}
	if _, ok := t.bot.(platforms.MediaSender); !ok || who.out.files == nil {
		return f, func() {}, relay.Unsupported(m.Op())
	}
	return who.out.files.Source(ctx, who.instance, m.SourceURL, m.Filename)
}

// failed counts an action that did nothing, or only a part, and returns its error in the form for the gateway.
func (who *Caller) failed(a relay.Action, err error) error {
	ae := relay.Explain(err)
	switch {
	case ae.Code == relay.CodeEgressDeclined:
		who.out.counters.Add(count.ActionDeclined, 1)
	case ae.Outcome == relay.NotSent:
		who.out.counters.Add(count.ActionNotSent, 1)
	default:
		who.out.counters.Add(count.ActionMaybeSent, 1)
	}
	who.out.log.Debug("action failed", "op", a.Op(), "chat", a.Target(), "err", err)
	return ae
}

// metaOf returns the gateway's metadata of an action in a conversation; zero for an action on a chat as such.
func metaOf(a relay.Action) relay.Metadata {
	switch a := a.(type) {
	case relay.Send:
		return a.Meta
	case relay.Edit:
		return a.Meta
	case relay.Typing:
		return a.Meta
	case relay.React:
		return a.Meta
	case relay.Delete:
		return a.Meta
	case relay.FollowUp:
		return a.Meta
	case relay.SendMedia:
		return a.Meta
	case relay.Prompt:
		return a.Meta
	case relay.Draft:
		return a.Meta
	}
	return relay.Metadata{}
}

// keepProfile keeps the profile that acts on the chat with the conversation, for its next events.
func (who *Caller) keepProfile(ctx context.Context, c relay.Chat, a relay.Action) {
	profile := metaOf(a).Profile
	if profile == "" {
		return
	}
	if err := who.out.db.KeepProfile(ctx, who.instance, c, profile); err != nil {
		who.out.log.Warn("profile not kept; the next action tries again", "instance", who.instance, "err", err)
	}
}
