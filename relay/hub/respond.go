package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

// keep binds the capability that came in a judged event to the instance that is to receive the event: before
// the commit, because the event may be pushed and answered the moment it is stored. Of two instances it is the
// author's own. While an event waits for its verdict, its capability is nobody's. j.undo takes it back, for an
// event that was not stored after all.
func (h *Hub) keep(j *judgement) {
	j.undo = func() {}
	if j.came == nil {
		return
	}
	held := Held{Capability: *j.came, Bot: j.event.Bot} // nobody's, until there is a verdict
	switch v, ok := j.admitted(); {
	case ok:
		held.Tenant, held.Instance, held.Chat = v.Tenant, v.Instance, j.event.Source.ChatID
		held.Session = sessionkey.Build(j.event.Source, sessionkey.Options{})
	case j.undecided == "":
		return
	}
	kept, lost := h.keeper.Keep(held)
	for _, l := range lost {
		if !l.begun.Load() {
			h.discard(l.Bot, l.Capability)
		}
	}
	if kept {
		j.undo = func() { h.keeper.Forget(held) }
	}
}

// keepAll is keep for all that is about to be stored together.
func (h *Hub) keepAll(judged []judgement) (undo func()) {
	for n := range judged {
		h.keep(&judged[n])
	}
	return func() {
		for _, j := range judged {
			j.undo()
		}
	}
}

// admitted is the verdict of the first instance that receives the event.
func (j judgement) admitted() (verdict, bool) {
	i := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Reason == gate.Delivered })
	if i < 0 {
		return verdict{}, false
	}
	return j.verdicts[i], true
}

// dismiss takes away the placeholder of an event that nobody receives, unless the connector's own answer replaces
// it, or a verdict is still to come.
func (h *Hub) dismiss(j judgement) {
	if _, ok := j.admitted(); j.came != nil && !ok && j.answer == "" && j.undecided == "" {
		h.discard(j.event.Bot, *j.came)
	}
}

// discard has c's placeholder taken away.
func (h *Hub) discard(bot relay.Bot, c platforms.Capability) {
	if c.Placeholder {
		h.through(count.PlaceholderLeft, bot, c, platforms.Responder.Discard)
	}
}

// settle tells the platform that a gateway has taken the event a capability came in. An older one is past that.
func (h *Hub) settle(i relay.InstanceID, bot relay.Bot, event relay.EventID) {
	if held, ok := h.keeper.OfEvent(i, bot, event); ok {
		h.through(count.SettleDropped, bot, held.Capability, platforms.Responder.Settle)
	}
}

// through puts an errand on its way that is done through c. It is done too if the network no longer honours c.
func (h *Hub) through(
	givenUp count.Counter, bot relay.Bot, c platforms.Capability,
	do func(platforms.Responder, context.Context, platforms.Capability) error,
) {
	r, ok := h.platform(bot).(platforms.Responder)
	if !ok {
		return
	}
	h.errands.put(errand{givenUp: givenUp, until: c.ExpiresAt, harmless: true, do: func(ctx context.Context) error {
		if err := do(r, ctx, c); !errors.Is(err, platforms.ErrCapabilityGone) {
			return err
		}
		return nil
	}})
}

// respond answers a send through a capability of the chat. done is false when the instance holds none that the
// network still honours: then the send is an ordinary one.
func (h *Hub) respond(ctx context.Context, i relay.InstanceID, p platforms.Platform, a relay.Send) (res relay.Result, done bool, err error) {
	r, ok := p.(platforms.Responder)
	if !ok {
		return res, false, nil
	}
	for {
		held, ok := h.keeper.Reply(i, relay.Chat{Bot: p.Bot(), ID: a.Chat}, a.ReplyTo)
		if !ok {
			return res, false, nil
		}
		named := held.ID == string(a.ReplyTo)
		res, err = h.wield(ctx, r, held, a, !named)
		switch {
		case errors.Is(err, errAnswered): // meanwhile, by another one: there may be a next
		case errors.Is(err, platforms.ErrCapabilityGone):
			return relay.Result{}, false, nil
		default:
			return res, true, err
		}
	}
}

// errAnswered: somebody else had the right to answer first.
var errAnswered = errors.New("answered already")

// wield answers through held: one answer at a time, since the network puts whichever comes first in the
// placeholder's place. onlyFirst: if another answer was the first, the error is errAnswered.
func (h *Hub) wield(ctx context.Context, r platforms.Responder, held Held, a relay.Send, onlyFirst bool) (relay.Result, error) {
	select {
	case held.underWay <- struct{}{}:
		defer func() { <-held.underWay }()
	case <-ctx.Done():
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: ctx.Err()}
	}
	first := held.begun.CompareAndSwap(false, true)
	if onlyFirst && !first {
		return relay.Result{}, errAnswered
	}
	res, err := r.Respond(ctx, held.Capability, a, first && held.Placeholder)
	switch ae := relay.Explain(err); {
	case errors.Is(err, platforms.ErrCapabilityGone):
		h.keeper.Forget(held)
	case first && err != nil && ae.Outcome == relay.NotSent && len(ae.MessageIDs) == 0:
		held.begun.Store(false)
	}
	return res, err
}

// followUp answers through the capability bound to the session key a gateway names, if it may still act on the
// capability's chat. Whatever is in the way, the gateway reads the same.
func (s *seat) followUp(ctx context.Context, a relay.FollowUp) (relay.Result, error) {
	h := s.hub
	none := &relay.ActionError{
		Outcome: relay.NotSent, Public: "follow_up declined: no capability for this session",
	}
	if s.revoked.Load() {
		return relay.Result{}, none
	}
	held, ok := h.keeper.Bound(s.peer.Tenant, s.peer.Instance, a.Session, a.Kind)
	p := h.platform(held.Bot) // nil if there is none held
	r, responds := p.(platforms.Responder)
	if !ok || !responds {
		return relay.Result{}, none
	}
	f, err := h.actFacts(ctx, s.peer.Instance, p, held.Chat)
	if err != nil {
		return relay.Result{}, internal(err)
	}
	if !gate.MayAct(f) {
		return relay.Result{}, none
	}
	send := relay.Send{Chat: held.Chat, Content: a.Content, Meta: a.Meta}
	if _, ok := p.(platforms.Threader); ok && send.Meta.ThreadID != "" && relay.ChatID(send.Meta.ThreadID) != held.Chat {
		// No capability reaches another chat.
		t, err := s.allowed(ctx, relay.Request{Platform: held.Bot.Platform, Bot: held.Bot.ID, Action: send})
		if err != nil {
			return relay.Result{}, err
		}
		return s.carryOut(ctx, t)
	}
	res, err := h.wield(ctx, r, held, send, false)
	h.noteDone(ctx, s.peer.Instance, p, a, held.Chat, res, err)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, none
	}
	return res, err
}

// answer puts the answer to the control message ev on its way, through the capability that came with it, if any.
func (h *Hub) answer(ev relay.Event, text string, c *platforms.Capability) {
	send := relay.Send{
		Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
		Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true},
	}
	p := h.platform(ev.Bot)
	until := time.Now().Add(errandLife)
	h.errands.put(errand{givenUp: count.AnswerDropped, until: until, urgent: true, do: func(ctx context.Context) error {
		if r, ok := p.(platforms.Responder); c != nil && ok {
			if _, err := r.Respond(ctx, *c, send, c.Placeholder); !errors.Is(err, platforms.ErrCapabilityGone) {
				return err
			}
		}
		_, err := p.Send(ctx, send)
		return err
	}})
}
