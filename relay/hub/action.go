package hub

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	// recordWithin bounds what must still be stored after an action's own time ran out.
	recordWithin = 5 * time.Second
	// allowedFor is how long an action stays allowed: after a longer wait the gate is asked once more.
	allowedFor = time.Second
)

// action is one thing that a gateway asks for, on its way; see session.Action.
type action struct {
	// Set once, by seat.Action.
	seat    *seat
	request relay.Request
	line    relay.Chat

	// Set by Allow.
	target target
	at     time.Time // when it was allowed

	file relay.File // of a send_media; set by Do
}

// Action implements session.Handler.
func (s *seat) Action(ctx context.Context, r relay.Request) session.Action {
	a := &action{seat: s, request: r, line: s.line(ctx, r)}
	a.heard(delivery.Alive)
	return a
}

// Line implements session.Action.
func (a *action) Line() relay.Chat { return a.line }

// Allow implements session.Action. A follow-up names no chat, and is decided about when it is carried out.
func (a *action) Allow(ctx context.Context) (err error) {
	if requestOfNow(a.request) {
		a.seat.isNewer(ctx)
	}
	if ofFetchers(a.request.Action) {
		a.seat.fetcher(ctx)
	}
	if _, ok := a.request.Action.(relay.FollowUp); ok {
		return nil
	}
	a.at = time.Now()
	a.target, err = a.seat.allowed(platforms.For(ctx, a.seat.peer.Instance), a.request)
	if err != nil {
		a.heard(signOf(a.request.Action, err))
		return a.seat.failed(a.request.Action, err)
	}
	at := relay.Chat{Bot: a.target.bot.Bot(), ID: a.target.action.Target()}
	a.seat.keepProfile(ctx, at, a.target.action)
	return nil
}

// Unknown implements session.Handler.
func (s *seat) Unknown(ctx context.Context) { s.fetcher(ctx) }

// Do implements session.Action.
func (a *action) Do(ctx context.Context, pick session.Pick) (relay.Result, error) {
	s := a.seat
	done, err := a.find(ctx)
	defer done()
	if err != nil {
		return relay.Result{}, s.failed(a.request.Action, err)
	}
	if g, ok := a.target.bot.(platforms.Limited); ok && waits(a.request.Action) {
		if err := g.WaitOpen(platforms.For(ctx, s.peer.Instance), a.target.action.Target()); err != nil {
			if _, ok := errors.AsType[*relay.ActionError](err); !ok { // nothing has left yet, whatever the error
				err = &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent in time", Err: err}
			}
			return relay.Result{}, s.failed(a.request.Action, err)
		}
	}
	running, r, ok := pick()
	if !ok {
		return relay.Result{}, nil // the session answers
	}
	res, err := a.do(platforms.For(running, s.peer.Instance), r)
	a.heard(signOf(r.Action, err))
	if err != nil {
		return relay.Result{}, s.failed(r.Action, err)
	}
	s.hub.counters.Add(count.ActionOK, 1)
	if says(r.Action) {
		s.hub.counters.Add(count.MessageSent, 1)
	}
	return res, nil
}

// says reports whether a person reads a as a message.
func says(a relay.Action) bool {
	switch a.(type) {
	case relay.Send, relay.FollowUp, relay.SendMedia, relay.Prompt:
		return true
	}
	return false
}

// waits reports whether a waits for its chat's rate limit. Typing, reactions and drafts are of no use later.
func waits(a relay.Action) bool {
	switch a.(type) {
	case relay.Typing, relay.React, relay.Draft:
		return false
	}
	return true
}

// do carries out r, which is a's own request or one alike.
func (a *action) do(ctx context.Context, r relay.Request) (_ relay.Result, err error) {
	t := a.target
	switch act := r.Action.(type) {
	case relay.FollowUp:
		return a.seat.followUp(ctx, act)
	case relay.Edit, relay.Typing, relay.Draft: // it may be a newer one, about the same
		t.action = act.Aimed(t.action.Target())
	}
	if a.seat.revoked.Load() || time.Since(a.at) > allowedFor {
		if t, err = a.seat.allowed(ctx, r); err != nil {
			return relay.Result{}, err
		}
	}
	if m, ok := t.action.(relay.SendMedia); ok {
		m.File = a.file
		t.action = m
	}
	if p, ok := t.action.(relay.Prompt); ok {
		return a.seat.ask(ctx, t, p)
	}
	if e, ok := t.action.(relay.React); ok {
		return a.seat.react(ctx, t, e, relay.Declined(a.seat.speaksOf(r)))
	}
	return a.seat.carryOut(ctx, t)
}

// find finds the file that a send_media names: before the chat's limiter is waited for, so that nobody waits for a slow
// server. done lets go of it, and is never nil.
func (a *action) find(ctx context.Context) (done func(), err error) {
	m, ok := a.request.Action.(relay.SendMedia)
	if !ok {
		return func() {}, nil
	}
	h := a.seat.hub
	if _, ok := a.target.bot.(platforms.MediaSender); !ok || h.opts.Files == nil {
		return func() {}, relay.Unsupported(m.Op())
	}
	a.file, done, err = h.opts.Files.Source(ctx, a.seat.peer.Instance, m.SourceURL, m.Filename)
	return done, err
}

// failed counts an action that came to nothing, or not to all, and is its error as the gateway is told it.
func (s *seat) failed(a relay.Action, err error) error {
	ae := relay.Explain(err)
	switch {
	case ae.Code == relay.CodeEgressDeclined:
		s.hub.counters.Add(count.ActionDeclined, 1)
	case ae.Outcome == relay.NotSent:
		s.hub.counters.Add(count.ActionNotSent, 1)
	default:
		s.hub.counters.Add(count.ActionMaybeSent, 1)
	}
	s.hub.log.Debug("action failed", "op", a.Op(), "chat", a.Target(), "err", err)
	return ae
}

// carryOut does what was allowed.
func (s *seat) carryOut(ctx context.Context, t target) (relay.Result, error) {
	h, p, i := s.hub, t.bot, s.peer.Instance
	if res, done, err := h.respond(ctx, i, p, t.action); done || err != nil {
		h.noteDone(ctx, i, p, t.action, t.action.Target(), res, err)
		return res, err
	}
	if a, ok := t.action.(relay.ThreadRename); ok && a.OnlyIfConnectorCreated {
		made, err := h.madeTopic(ctx, p, a)
		if err != nil {
			return relay.Result{}, internal(err)
		}
		a.Made = made
		t.action = a
	}
	res, err := platforms.Do(ctx, p, t.action)
	h.noteDone(ctx, i, p, t.action, cmp.Or(res.MovedTo, t.action.Target()), res, err)
	if err != nil {
		return relay.Result{}, err
	}
	if res.MovedTo != "" {
		// The platform carried the action out; what is stored must follow even if the gateway hung up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		move := store.Move{Platform: p.Bot().Platform, From: t.action.Target(), To: res.MovedTo}
		if err := h.db.MoveChat(ctx, move); err != nil {
			h.log.Warn("chat moved, but grants and conversations did not follow; the next event tries again", "err", err)
		}
	}
	res.MovedTo = cmp.Or(res.MovedTo, t.movedTo)
	return res, nil
}

// internal is what a gateway reads when the database could not be asked: not sent, worth trying again.
func internal(err error) error {
	if _, ok := errors.AsType[*relay.ActionError](err); ok {
		return err
	}
	return &relay.ActionError{Outcome: relay.NotSent, Public: "network: the connector's database is not available", Err: err}
}
