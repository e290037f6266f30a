package hub

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
)

// recordWithin bounds what must still be stored after an action's own time ran out.
const recordWithin = 5 * time.Second

// Do carries one action of a gateway out. ctx carries the action's deadline; the session keeps
// the order within a chat. The error is what the gateway is told, as an *relay.ActionError.
func (h *Hub) Do(ctx context.Context, s *session.Session, r relay.Request) (relay.Result, error) {
	res, err := h.do(ctx, h.seatOf(s), r)
	if err == nil {
		h.counters.add("action_ok", 1)
		return res, nil
	}
	ae := relay.Explain(err)
	switch {
	case ae.Code == relay.CodeEgressDeclined:
		h.counters.add("action_declined", 1)
	case ae.Outcome == relay.NotSent:
		h.counters.add("action_not_sent", 1)
	default:
		h.counters.add("action_maybe_sent", 1)
	}
	h.log.Debug("action failed", keyOp, r.Action.Op(), keyChat, r.Action.Target(), keyErr, err)
	return relay.Result{}, ae
}

func (h *Hub) do(ctx context.Context, s *seat, r relay.Request) (relay.Result, error) {
	if a, ok := r.Action.(relay.FollowUp); ok {
		return h.followUp(ctx, s, a)
	}
	p, r, err := h.allowed(ctx, s, r)
	if err != nil {
		return relay.Result{}, err
	}
	if a, ok := r.Action.(relay.Send); ok {
		if res, done, err := h.respond(ctx, s, p, a); done || err != nil {
			return res, err
		}
	}
	res, err := platforms.Do(ctx, p, r.Action)
	if err != nil {
		return relay.Result{}, err
	}
	if res.MovedTo != "" {
		// The platform carried the action out; what is stored must follow even if the gateway hung up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		move := store.Move{Platform: p.Bot().Platform, From: r.Action.Target(), To: res.MovedTo}
		if err := h.db.MoveChat(ctx, move); err != nil {
			h.log.Warn("chat moved, but grants and conversations did not follow; the next event tries again", keyErr, err)
		}
	}
	return res, nil
}

// allowed finds the bot for r and asks the gate. aimed is r as an action on the chat it is about.
func (h *Hub) allowed(ctx context.Context, s *seat, r relay.Request) (p platforms.Platform, aimed relay.Request, err error) {
	if s.revoked.Load() {
		return nil, r, relay.Declined(s.speaksOf(r))
	}
	if p, err = h.route(ctx, s, r); err != nil {
		return nil, r, internal(err)
	}
	aimed, ok, err := h.aim(ctx, s, p, r)
	if err != nil {
		return nil, r, internal(err)
	}
	if !ok {
		return nil, r, relay.Declined(s.speaksOf(r))
	}
	if a, ok := r.Action.(relay.ThreadRename); ok {
		others, err := h.othersThread(ctx, s.peer.Instance, p, a)
		if err != nil {
			return nil, r, internal(err)
		}
		if others {
			return nil, r, relay.Declined(s.speaksOf(r))
		}
	}
	return p, aimed, nil
}

// othersThread reports whether the thread that a names within its chat was granted to another
// instance by itself. That the thread is one of the chat's is for the platform to see.
func (h *Hub) othersThread(ctx context.Context, i relay.InstanceID, p platforms.Platform, a relay.ThreadRename) (bool, error) {
	thread := relay.ChatID(a.Thread)
	if thread == "" || thread == a.Chat {
		return false, nil
	}
	place, known := locate(ctx, p, relay.Place{Platform: p.Bot().Platform, Chat: thread})
	if !known {
		return false, nil
	}
	g, ok, err := h.db.GrantCovering(ctx, place)
	return ok && g.Chat == thread && g.Instance != i, err
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
	_, _, err := h.allowed(ctx, h.seatOf(s), r)
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
	p, r, err := h.allowed(ctx, h.seatOf(s), r)
	if err != nil {
		return nil // Do says so
	}
	if g, ok := p.(platforms.Gatekeeper); ok {
		return g.WaitOpen(ctx, r.Action.Target())
	}
	return nil
}
