package outbound

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store/capability"
)

// Settle takes away the buttons through which c came: somebody got the press.
func (cs *Capabilities) Settle(bot relay.Bot, c platforms.Capability) {
	cs.through(count.SettleDropped, bot, c, platforms.Responder.Settle)
}

// Discard takes away c's placeholder.
func (cs *Capabilities) Discard(bot relay.Bot, c platforms.Capability) {
	if c.Placeholder {
		cs.through(count.PlaceholderLeft, bot, c, platforms.Responder.Discard)
	}
}

// DiscardLost removes the placeholders of dropped capabilities: their answers will not find them. It leaves a
// placeholder that an answer has replaced, or may have replaced.
func (cs *Capabilities) DiscardLost(lost []capability.Record) {
	for _, l := range lost {
		if cs.answerings.of(l).take() != free {
			continue
		}
		if c, ok := cs.Open(l); ok {
			cs.Discard(l.Bot, c)
		}
	}
}

// through queues a task that calls do with c. The task counts as done if the network no longer accepts c.
func (cs *Capabilities) through(
	givenUp count.Counter, bot relay.Bot, c platforms.Capability,
	do func(platforms.Responder, context.Context, platforms.Capability) error,
) {
	r, ok := cs.bots.Bot(bot).(platforms.Responder)
	if !ok {
		return
	}
	cs.tasks.Put(background.Task{GivenUp: givenUp, Until: c.ExpiresAt, Harmless: true, Do: func(ctx context.Context) error {
		if err := do(r, ctx, c); !errors.Is(err, platforms.ErrCapabilityGone) {
			return err
		}
		return nil
	}})
}

// answer carries out an action through a capability; see platforms.Responder.
type answer func(ctx context.Context, r platforms.Responder, c platforms.Capability, first bool) (relay.Result, error)

// asAnswer returns how a is carried out through a capability of p, and the message it answers. ok is false for an
// action that is no answer, or one that p cannot carry out this way.
func asAnswer(p platforms.Bot, a relay.Action) (do answer, replyTo relay.MessageID, ok bool) {
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

// Respond answers with a through a capability of the chat. done is false if the instance holds none that the network
// still accepts, or a is no answer: then a is an ordinary action.
func (cs *Capabilities) Respond(ctx context.Context, i relay.InstanceID, p platforms.Bot, a relay.Action) (res relay.Result, done bool, err error) {
	r, responds := p.(platforms.Responder)
	do, replyTo, ok := asAnswer(p, a)
	if !ok || !responds {
		return res, false, nil
	}
	for {
		c, ok, err := cs.reply(ctx, i, relay.Chat{Bot: p.ID(), ID: a.Target()}, replyTo)
		if err != nil {
			return res, true, internal(err)
		}
		if !ok {
			return res, false, nil
		}
		res, err = cs.wield(ctx, r, c, do, c.ID != string(replyTo))
		switch {
		case errors.Is(err, errAnswered): // by another answer: there may be a further capability
		case errors.Is(err, platforms.ErrCapabilityGone):
			return relay.Result{}, false, nil
		default:
			return res, true, err
		}
	}
}

// errAnswered: another answer has taken the right to be the first.
var errAnswered = errors.New("answered already")

// wield lets do answer through c, one answer at a time. It takes the right to replace the placeholder, asks the network
// if nobody knows whether that right is free, and notes what became of it. onlyFirst: if another answer was the first,
// the error is errAnswered.
func (cs *Capabilities) wield(ctx context.Context, r platforms.Responder, c capability.Record, do answer, onlyFirst bool) (relay.Result, error) {
	if !cs.leads() {
		return relay.Result{}, errNotOurs
	}
	x := cs.answerings.of(c)
	select {
	case x.underWay <- struct{}{}:
		defer func() { <-x.underWay }()
	case <-ctx.Done():
		return relay.Result{}, platforms.NotSent(0, ctx.Err())
	}
	opened, ok := cs.Open(c)
	before := x.take()
	switch {
	case !ok || before == gone:
		x.becomes(gone)
		return relay.Result{}, platforms.ErrCapabilityGone
	case before == unsure && c.Placeholder:
		thinking, err := r.Thinking(ctx, opened)
		switch {
		case errors.Is(err, platforms.ErrCapabilityGone):
			return relay.Result{}, cs.became(c, x, before, err)
		case err != nil: // still not known: this is sent as a further answer, which replaces no other
		case thinking:
			before = free
		default:
			before = taken
			cs.db.Capabilities.Became(c, capability.Answered)
		}
	}
	if onlyFirst && before == taken {
		return relay.Result{}, errAnswered
	}
	res, err := do(ctx, r, opened, before == free && c.Placeholder)
	return res, cs.became(c, x, before, err)
}

// became notes what an answer through c did to the right to be the first, whose former state was before, and returns
// err.
func (cs *Capabilities) became(c capability.Record, x *answering, before right, err error) error {
	switch ae := relay.Explain(err); {
	case errors.Is(err, platforms.ErrCapabilityGone):
		x.becomes(gone)
		cs.db.Capabilities.Became(c, capability.Useless)
	case err == nil || len(ae.MessageIDs) > 0:
		cs.db.Capabilities.Became(c, capability.Answered)
	case ae.Outcome == relay.NotSent:
		x.becomes(before)
	case before != taken && c.Placeholder: // the next answer asks the network
		x.becomes(unsure)
	}
	return err
}

// Answer sends the answer to the control message ev, through the event's capability if it has one, with its options as
// buttons if the network accepts them.
func (cs *Capabilities) Answer(ev relay.Event, a relay.Answer, c *platforms.Capability) {
	meta := relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true}
	send := relay.Send{Chat: ev.Source.ChatID, Content: a.Text, ReplyTo: ev.MessageID, Meta: meta}
	ask := relay.Prompt{Chat: send.Chat, Content: a.Text, ReplyTo: send.ReplyTo, Meta: meta, PromptID: relay.OwnPrompt, Options: a.Options}
	p := cs.bots.Bot(ev.Bot)
	until := time.Now().Add(background.Life)
	cs.tasks.Put(background.Task{GivenUp: count.AnswerDropped, Until: until, Urgent: true, Do: func(ctx context.Context) error {
		if !cs.leads() {
			return errNotOurs
		}
		if len(a.Options) > 0 {
			if err := question(ctx, p, ask, c); err == nil || !strings.HasPrefix(relay.Explain(err).Public, "unsupported op prompt") {
				return err
			}
		}
		if r, ok := p.(platforms.Responder); c != nil && ok {
			if _, err := r.Respond(ctx, *c, send, c.Placeholder); !errors.Is(err, platforms.ErrCapabilityGone) {
				return err
			}
		}
		_, err := p.Send(ctx, send)
		return err
	}})
}

// question posts a, through c if there is one. If the network has no buttons for it, the error says that it is
// unsupported.
func question(ctx context.Context, p platforms.Bot, a relay.Prompt, c *platforms.Capability) error {
	if r, ok := p.(platforms.PromptResponder); c != nil && ok {
		if _, err := r.RespondPrompt(ctx, *c, a, c.Placeholder); !errors.Is(err, platforms.ErrCapabilityGone) {
			return err
		}
	}
	b, ok := p.(platforms.Prompter)
	if !ok {
		return relay.Unsupported(relay.OpPrompt)
	}
	_, err := b.Prompt(ctx, a)
	return err
}
