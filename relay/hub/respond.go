package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// keep binds the capability that came in a judged event to the instance that receives it. Of two, it
// is the author's own, whose verdict comes first: an answer of the other would replace its answer.
// When none does, the placeholder is taken away, unless the connector's own answer replaces it.
func (h *Hub) keep(ctx context.Context, j judgement, c platforms.Capability, key relay.SessionKey) {
	ev := j.event
	if i := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Reason == gate.Delivered }); i >= 0 {
		v := j.verdicts[i]
		if err := h.keeper.Keep(ctx, Held{
			Capability: c, Bot: ev.Bot, Tenant: v.Tenant, Instance: v.Instance, Chat: ev.Source.ChatID, Session: key,
		}); err != nil {
			h.log.Warn("capability not kept; answers go out as ordinary messages", keyEvent, ev.ID, keyErr, err)
		}
		return
	}
	if !c.Placeholder || j.answer != "" {
		return
	}
	h.later("placeholder_left", func(ctx context.Context) error {
		r, ok := h.platform(ev.Bot).(platforms.Responder)
		if !ok {
			return nil
		}
		return r.Discard(ctx, c)
	})
}

// respond answers a send through a capability of the chat, if the instance holds one. done is
// false when there is none, or the network no longer honours it: then the send is an ordinary one.
func (h *Hub) respond(ctx context.Context, s *seat, p platforms.Platform, a relay.Send) (res relay.Result, done bool, err error) {
	r, ok := p.(platforms.Responder)
	if !ok {
		return res, false, nil
	}
	held, ok, err := h.keeper.Reply(ctx, s.peer.Instance, relay.Chat{Bot: p.Bot(), ID: a.Chat}, a.ReplyTo)
	if err != nil {
		return res, false, internal(err)
	}
	if !ok {
		return res, false, nil
	}
	res, err = h.wield(ctx, r, held, a)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, false, nil
	}
	return res, true, err
}

// wield answers through held and remembers what became of it.
func (h *Hub) wield(ctx context.Context, r platforms.Responder, held Held, a relay.Send) (relay.Result, error) {
	res, err := r.Respond(ctx, held.Capability, a, held.Placeholder && !held.Answered)
	// Whatever happened on the platform is remembered even if the gateway's time is up.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	var note error
	switch {
	case errors.Is(err, platforms.ErrCapabilityGone):
		note = h.keeper.Forget(after, held)
	case err == nil && !held.Answered:
		note = h.keeper.Answered(after, held)
	}
	if note != nil {
		h.log.Warn("capability's use not recorded", keyEvent, held.Event, keyErr, note)
	}
	return res, err
}

// followUp answers through the capability bound to the session a gateway names, if it may still act
// on the chat the capability came from. Absent, expired, foreign, no longer honoured and no longer
// allowed read alike.
func (h *Hub) followUp(ctx context.Context, s *seat, a relay.FollowUp) (relay.Result, error) {
	none := &relay.ActionError{
		Outcome: relay.NotSent, Public: "follow_up declined: no capability for this session",
	}
	if s.revoked.Load() {
		return relay.Result{}, none
	}
	held, ok, err := h.keeper.Bound(ctx, s.peer.Tenant, s.peer.Instance, a.Session, a.Kind)
	if err != nil {
		return relay.Result{}, internal(err)
	}
	if !ok {
		return relay.Result{}, none
	}
	p := h.platform(held.Bot)
	r, ok := p.(platforms.Responder)
	if !ok {
		return relay.Result{}, none
	}
	f, err := h.actFacts(ctx, s.peer.Instance, p, held.Chat)
	if err != nil {
		return relay.Result{}, internal(err)
	}
	if !gate.MayAct(f) {
		return relay.Result{}, none
	}
	res, err := h.wield(ctx, r, held, relay.Send{Chat: held.Chat, Content: a.Content, Meta: a.Meta})
	h.noteDone(ctx, s.peer.Instance, p, a, held.Chat, res, err)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, none
	}
	return res, err
}

// settle tells the platform that a gateway has taken the event a capability came in.
func (h *Hub) settle(ctx context.Context, s *seat, bot relay.Bot, event relay.EventID) {
	r, ok := h.platform(bot).(platforms.Responder)
	if !ok {
		return
	}
	held, ok, err := h.keeper.OfEvent(ctx, s.peer.Instance, bot, event)
	if err != nil || !ok {
		return // an older capability is past settling
	}
	h.later("settle_dropped", func(ctx context.Context) error {
		if err := r.Settle(ctx, held.Capability); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		return nil
	})
}
