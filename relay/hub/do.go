package hub

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
)

// recordWithin bounds what must still be stored after an action's own time ran out.
const recordWithin = 5 * time.Second

// Do carries one action of a gateway out. ctx carries the action's deadline; the session keeps
// the order within a chat. The error is what the gateway is told, as an *relay.ActionError.
func (h *Hub) Do(ctx context.Context, s *session.Session, r relay.Request) (relay.Result, error) {
	seat := h.seatOf(s)
	if requestOfNow(r) {
		h.isNewer(ctx, seat)
	}
	res, err := h.do(platforms.For(ctx, seat.peer.Instance), seat, r)
	if err == nil {
		h.counters.Add(count.ActionOK, 1)
		return res, nil
	}
	ae := relay.Explain(err)
	switch {
	case ae.Code == relay.CodeEgressDeclined:
		h.counters.Add(count.ActionDeclined, 1)
	case ae.Outcome == relay.NotSent:
		h.counters.Add(count.ActionNotSent, 1)
	default:
		h.counters.Add(count.ActionMaybeSent, 1)
	}
	h.log.Debug("action failed", keyOp, r.Action.Op(), keyChat, r.Action.Target(), keyErr, err)
	return relay.Result{}, ae
}

func (h *Hub) do(ctx context.Context, s *seat, r relay.Request) (relay.Result, error) {
	if a, ok := r.Action.(relay.FollowUp); ok {
		return h.followUp(ctx, s, a)
	}
	t, err := h.allowed(ctx, s, r)
	if err != nil {
		return relay.Result{}, err
	}
	p, i := t.bot, s.peer.Instance
	if a, ok := t.action.(relay.Send); ok {
		if res, done, err := h.respond(ctx, s, p, a); done || err != nil {
			h.noteDone(ctx, i, p, a, a.Chat, res, err)
			return res, err
		}
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
			h.log.Warn("chat moved, but grants and conversations did not follow; the next event tries again", keyErr, err)
		}
	}
	res.MovedTo = cmp.Or(res.MovedTo, t.movedTo)
	return res, nil
}

// internal is what a gateway reads when the database could not be asked: certainly not sent,
// worth trying again.
func internal(err error) error {
	var ae *relay.ActionError
	if errors.As(err, &ae) {
		return err
	}
	return &relay.ActionError{Outcome: relay.NotSent, Public: "network: the connector's database is not available", Err: err}
}

// May reports whether the gateway may act on the request's chat now; see session.Handler.
func (h *Hub) May(ctx context.Context, s *session.Session, r relay.Request) error {
	if _, ok := r.Action.(relay.FollowUp); ok {
		return nil // names no chat, and none is replaced
	}
	seat := h.seatOf(s)
	_, err := h.allowed(platforms.For(ctx, seat.peer.Instance), seat, r)
	return err
}

// WaitOpen waits until the chat's rate limit lets an action leave; see session.Handler.
func (h *Hub) WaitOpen(ctx context.Context, s *session.Session, r relay.Request) error {
	switch r.Action.(type) {
	case relay.FollowUp: // names no chat
		return nil
	case relay.Typing, relay.React: // dropped, not queued, when the gate is closed
		return nil
	}
	seat := h.seatOf(s)
	ctx = platforms.For(ctx, seat.peer.Instance)
	t, err := h.allowed(ctx, seat, r)
	if err != nil {
		return nil // Do says so
	}
	if g, ok := t.bot.(platforms.Gatekeeper); ok {
		return g.WaitOpen(ctx, t.action.Target())
	}
	return nil
}
