package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// settle ends what the network shows of an event that came with a capability and is stored now: the placeholder, when
// nobody gets the event and the connector's own answer does not replace it; the buttons that were pressed, when
// somebody does. Those of a prompt go by a way that a crash does not end.
func (h *Hub) settle(j judgement) {
	if j.came == nil {
		return
	}
	held := func(why gate.Reason) bool {
		return j.holder != "" && slices.ContainsFunc(j.verdicts, func(v verdict) bool { return v.Instance == j.holder && v.Reason == why })
	}
	switch {
	case held(gate.Undecided):
	case held(gate.Delivered):
		if j.press == nil && !j.came.Placeholder {
			h.through(count.SettleDropped, j.event.Bot, *j.came, platforms.Responder.Settle)
		}
	case j.answer == "":
		h.discard(j.event.Bot, *j.came)
	}
}

// discard has c's placeholder taken away.
func (h *Hub) discard(bot relay.Bot, c platforms.Capability) {
	if c.Placeholder {
		h.through(count.PlaceholderLeft, bot, c, platforms.Responder.Discard)
	}
}

// discardLost takes away the placeholders of capabilities that had to go: their answers will not find them. One in
// whose place an answer stands, or may stand, is left alone.
func (h *Hub) discardLost(lost []capability.Record) {
	for _, l := range lost {
		if h.answerings.of(l).take() != free {
			continue
		}
		if c, ok := h.open(l); ok {
			h.discard(l.Bot, c)
		}
	}
}

// through puts a task on its way that is done through c. It is done too if the network no longer honours c.
func (h *Hub) through(
	givenUp count.Counter, bot relay.Bot, c platforms.Capability,
	do func(platforms.Responder, context.Context, platforms.Capability) error,
) {
	r, ok := h.platform(bot).(platforms.Responder)
	if !ok {
		return
	}
	h.tasks.Put(background.Task{GivenUp: givenUp, Until: c.ExpiresAt, Harmless: true, Do: func(ctx context.Context) error {
		if err := do(r, ctx, c); !errors.Is(err, platforms.ErrCapabilityGone) {
			return err
		}
		return nil
	}})
}

// answer is how an action is carried out through a capability; see platforms.Responder.
type answer func(ctx context.Context, r platforms.Responder, c platforms.Capability, first bool) (relay.Result, error)

// asAnswer is how a is carried out through a capability of p's, and the message it answers. ok is false for an action
// that is no answer, or one that p cannot give so.
func asAnswer(p platforms.Platform, a relay.Action) (do answer, replyTo relay.MessageID, ok bool) {
	switch a := a.(type) {
	case relay.Send:
		return sendThrough(a), a.ReplyTo, true
	case relay.SendMedia:
		m, ok := p.(platforms.MediaResponder)
		return func(ctx context.Context, _ platforms.Responder, c platforms.Capability, first bool) (relay.Result, error) {
			return m.RespondMedia(ctx, c, a, first)
		}, a.ReplyTo, ok
	case relay.Prompt:
		r, ok := p.(platforms.PromptResponder)
		return func(ctx context.Context, _ platforms.Responder, c platforms.Capability, first bool) (relay.Result, error) {
			return r.RespondPrompt(ctx, c, a, first)
		}, a.ReplyTo, ok
	}
	return nil, "", false
}

func sendThrough(a relay.Send) answer {
	return func(ctx context.Context, r platforms.Responder, c platforms.Capability, first bool) (relay.Result, error) {
		return r.Respond(ctx, c, a, first)
	}
}

// respond answers with a through a capability of the chat. done is false when the instance holds none that the network
// still honours, or a is no answer: then a is an ordinary action.
func (h *Hub) respond(ctx context.Context, i relay.InstanceID, p platforms.Platform, a relay.Action) (res relay.Result, done bool, err error) {
	r, responds := p.(platforms.Responder)
	do, replyTo, ok := asAnswer(p, a)
	if !ok || !responds {
		return res, false, nil
	}
	for {
		c, ok, err := h.reply(ctx, i, relay.Chat{Bot: p.Bot(), ID: a.Target()}, replyTo)
		if err != nil {
			return res, true, internal(err)
		}
		if !ok {
			return res, false, nil
		}
		res, err = h.wield(ctx, r, c, do, c.ID != string(replyTo))
		switch {
		case errors.Is(err, errAnswered): // by another one: there may be a next
		case errors.Is(err, platforms.ErrCapabilityGone):
			return relay.Result{}, false, nil
		default:
			return res, true, err
		}
	}
}

// errAnswered: somebody else had the right to answer first.
var errAnswered = errors.New("answered already")

// wield has do answer through c. onlyFirst: if another answer was the first, the error is errAnswered.
func (h *Hub) wield(ctx context.Context, r platforms.Responder, c capability.Record, do answer, onlyFirst bool) (relay.Result, error) {
	x := h.answerings.of(c)
	select {
	case x.underWay <- struct{}{}:
		defer func() { <-x.underWay }()
	case <-ctx.Done():
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: ctx.Err()}
	}
	opened, ok := h.open(c)
	before := x.take()
	switch {
	case !ok || before == gone:
		x.becomes(gone)
		return relay.Result{}, platforms.ErrCapabilityGone
	case before == unsure && c.Placeholder:
		thinking, err := r.Thinking(ctx, opened)
		switch {
		case errors.Is(err, platforms.ErrCapabilityGone):
			return relay.Result{}, h.became(c, x, before, err)
		case err != nil: // not known: as a further answer it replaces none
		case thinking:
			before = free
		default:
			before = taken
			h.db.Capabilities.Became(c, capability.Answered)
		}
	}
	if onlyFirst && before == taken {
		return relay.Result{}, errAnswered
	}
	res, err := do(ctx, r, opened, before == free && c.Placeholder)
	return res, h.became(c, x, before, err)
}

// became notes what an answer through c made of the right to be the first, which was that before, and returns err.
func (h *Hub) became(c capability.Record, x *answering, before right, err error) error {
	switch ae := relay.Explain(err); {
	case errors.Is(err, platforms.ErrCapabilityGone):
		x.becomes(gone)
		h.db.Capabilities.Became(c, capability.Useless)
	case err == nil || len(ae.MessageIDs) > 0:
		h.db.Capabilities.Became(c, capability.Answered)
	case ae.Outcome == relay.NotSent:
		x.becomes(before)
	case before != taken && c.Placeholder: // whoever is next asks the network
		x.becomes(unsure)
	}
	return err
}

// errNoCapability is the answer to a follow-up, whatever is in its way.
var errNoCapability = &relay.ActionError{Outcome: relay.NotSent, Public: "follow_up declined: no capability for this session"}

// followUp answers through the capability bound to the session key a gateway names, if it may still act on the
// capability's chat. Until it is clear that it may, the gateway reads the same words whatever is in the way, and the
// same questions are put to the database: without a capability, about a chat that is nobody's.
func (s *seat) followUp(ctx context.Context, a relay.FollowUp) (relay.Result, error) {
	h := s.hub
	c, ok := h.bound(ctx, s.peer.Tenant, s.peer.Instance, a.Session, a.Kind)
	p := h.platform(c.Bot)
	r, responds := p.(platforms.Responder)
	if !responds {
		p, c.Chat, ok = nowhere{}, nobodysChat, false
	}
	f, err := h.facts.Act(ctx, s.peer.Instance, p, c.Chat)
	if err != nil || !ok || s.revoked.Load() || !gate.MayAct(f) {
		return relay.Result{}, errNoCapability
	}
	send := relay.Send{Chat: c.Chat, Content: a.Content, Meta: a.Meta}
	if _, ok := p.(platforms.Threader); ok && send.Meta.ThreadID != "" && relay.ChatID(send.Meta.ThreadID) != c.Chat {
		// No capability reaches another chat.
		t, err := s.allowed(ctx, relay.Request{Platform: c.Bot.Platform, Bot: c.Bot.ID, Action: send})
		if err != nil {
			return relay.Result{}, errNoCapability
		}
		return s.carryOut(ctx, t)
	}
	res, err := h.wield(ctx, r, c, sendThrough(send), false)
	h.noteDone(ctx, s.peer.Instance, p, a, c.Chat, res, err)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, errNoCapability
	}
	return res, err
}

// nobodysChat is the chat of a follow-up without a capability.
const nobodysChat relay.ChatID = "0"

// nowhere is the bot of a follow-up without a capability: no network is asked about it.
type nowhere struct{ platforms.Platform }

func (nowhere) Bot() relay.Bot { return relay.Bot{} }

// answer puts the answer to the control message ev on its way, through the capability that came with it, if any.
func (h *Hub) answer(ev relay.Event, text string, c *platforms.Capability) {
	send := relay.Send{
		Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
		Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true},
	}
	p := h.platform(ev.Bot)
	until := time.Now().Add(background.Life)
	h.tasks.Put(background.Task{GivenUp: count.AnswerDropped, Until: until, Urgent: true, Do: func(ctx context.Context) error {
		if r, ok := p.(platforms.Responder); c != nil && ok {
			if _, err := r.Respond(ctx, *c, send, c.Placeholder); !errors.Is(err, platforms.ErrCapabilityGone) {
				return err
			}
		}
		_, err := p.Send(ctx, send)
		return err
	}})
}
