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

// keep binds the capability that came in a judged event to the instance that is to receive it: before
// the commit, since a pump at work may push the event, and its answer come, the moment it is stored.
// Of two instances it is the author's own, whose verdict comes first: an answer of the other would
// replace its answer. That of an event that waits for a verdict is nobody's until then. Its undo takes it back,
// for an event that was not stored after all.
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

// dismiss takes away the placeholder of an event that nobody receives, unless the connector's own
// answer replaces it, or a verdict is still to come.
func (h *Hub) dismiss(j judgement) {
	if _, ok := j.admitted(); j.came != nil && !ok && j.answer == "" && j.undecided == "" {
		h.discard(j.event.Bot, *j.came)
	}
}

// discard has c's placeholder taken away.
func (h *Hub) discard(bot relay.Bot, c platforms.Capability) {
	r, ok := h.platform(bot).(platforms.Responder)
	if !ok || !c.Placeholder {
		return
	}
	h.errands.put(errand{givenUp: count.PlaceholderLeft, until: c.ExpiresAt, harmless: true, do: func(ctx context.Context) error {
		return ignoreGone(r.Discard(ctx, c))
	}})
}

// ignoreGone is err, but nil for a capability that the network does not honour: there is nothing left
// to take away through it.
func ignoreGone(err error) error {
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return nil
	}
	return err
}

// respond answers a send through a capability of the chat, if the instance holds one. done is
// false when there is none, or the network no longer honours it: then the send is an ordinary one.
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

// wield answers through held: one answer at a time, since the network puts whichever comes first in
// the placeholder's place. The first one replaces the placeholder; it counts as given unless it
// certainly was not, so that no other one can replace it. onlyFirst: nothing but the first will do,
// and the error is errAnswered otherwise.
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
	switch {
	case errors.Is(err, platforms.ErrCapabilityGone):
		h.keeper.Forget(held)
	case first && nothingSent(err):
		held.begun.Store(false)
	}
	return res, err
}

// nothingSent reports whether an action that ended with err certainly left nothing on the platform.
func nothingSent(err error) bool {
	if err == nil {
		return false
	}
	ae := relay.Explain(err)
	return ae.Outcome == relay.NotSent && len(ae.MessageIDs) == 0
}

// followUp answers through the capability bound to the session a gateway names, if it may still act
// on the chat the capability came from. Absent, expired, foreign, no longer honoured and no longer
// allowed read alike.
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

// settle tells the platform that a gateway has taken the event a capability came in.
func (h *Hub) settle(i relay.InstanceID, bot relay.Bot, event relay.EventID) {
	r, ok := h.platform(bot).(platforms.Responder)
	if !ok {
		return
	}
	held, ok := h.keeper.OfEvent(i, bot, event)
	if !ok {
		return // an older capability is past settling
	}
	h.errands.put(errand{givenUp: count.SettleDropped, until: held.ExpiresAt, harmless: true, do: func(ctx context.Context) error {
		return ignoreGone(r.Settle(ctx, held.Capability))
	}})
}

// answer puts the answer to the control message ev on its way, through the capability the message
// came with if it has one.
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
