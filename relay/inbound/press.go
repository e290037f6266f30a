package inbound

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// The texts for a person whose press reached nobody.
const (
	wordsForeign = "This question is not for you"
	wordsClosed  = "This question is closed"
)

// asker returns the only recipient for a press that answers a prompt: the instance that asked, even if the person is
// linked to others too. There is none if no instance asked.
func (g *judge) asker(ctx context.Context, ev relay.Event) ([]recipient, error) {
	src := ev.Source
	r, ok, err := g.db.Prompts.At(ctx, ev.Chat(), ev.Prompt.PromptID)
	if err != nil || !ok {
		return nil, err
	}
	c := recipient{asked: &r}
	c.instance, err = store.Only(g.facts.Instances(ctx, r.Instance))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.bound, err = g.facts.Bound(ctx, r.Instance, src.Platform, src.UserID); err != nil {
		return nil, err
	}
	place := src.Place() // the chat may have moved since the prompt
	if place.Chat, err = g.facts.CurrentChat(ctx, src.Platform, src.ChatID); err != nil {
		return nil, err
	}
	grant, granted, err := g.facts.Covering(ctx, place)
	c.grant, c.direct = granted && grant.Instance == r.Instance, direct(g.bots.Bot(ev.Bot), ev, granted && grant.Chat == place.Chat)
	return []recipient{c}, err
}

// nobody returns the reason for an event without a recipient.
func nobody(ev relay.Event) gate.Reason {
	if ev.Prompt != nil {
		return gate.PromptClosed
	}
	return gate.NoBinding
}

// decide asks the gate about the recipient: as a press if it answers the recipient's prompt, otherwise as any event.
func (c recipient) decide(ev relay.Event, f gate.Facts) gate.Reason {
	if c.asked == nil {
		return gate.Decide(f)
	}
	_, offered := c.asked.Option(ev.Prompt.OptionID)
	return gate.DecidePress(gate.PressFacts{
		Facts: f, Open: c.asked.Open(time.Now()), Offered: offered, OnMessage: c.asked.On(ev.Prompt.PromptMessageID),
		Sensitive: c.asked.Kind == relay.PromptApproval,
	})
}

// completed returns ev as the recipient will get it and as the gate judges it: a press with the remembered prompt, a
// message without the recipient's name at its beginning.
func (c recipient) completed(ev relay.Event) relay.Event {
	switch {
	case c.named:
		return gate.Without(ev, c.told)
	case c.asked == nil:
		return ev
	}
	answer := *ev.Prompt
	ev.Prompt = &answer
	if o, ok := c.asked.Option(answer.OptionID); ok {
		answer.Label = o.Label
	}
	if answer.PromptMessageID == "" {
		answer.PromptMessageID = c.asked.Message
	}
	if ev.Source.ThreadID == "" { // the message is too old for the network to describe it
		ev.Source.ThreadID = c.asked.Thread
	}
	return ev
}

// press returns the press to store with the event if it answers the recipient's prompt; nil: it does not.
func (c recipient) press(ev relay.Event) *prompt.Press {
	if c.asked == nil {
		return nil
	}
	return &prompt.Press{Prompt: *c.asked, Event: ev.ID, Message: ev.Prompt.PromptMessageID}
}

// tell calls how to tell the person that their press reached nobody. If the verdict is undecided, it calls waits to
// tell the network that the press waits, and the person is told later. how and waits may be nil. This happens before
// the commit, since networks do not wait for the disk.
func (in *Inbound) tell(j judgement, how func(relay.EventID, string), waits func(relay.EventID)) {
	if j.event.Prompt == nil {
		return
	}
	id := pressID{j.event.Bot, j.event.ID}
	say := func(words string) {
		if how != nil && in.presses.first(id) {
			how(id.event, words)
		}
	}
	switch j.verdicts[0].Reason {
	case gate.Undecided:
		if how != nil {
			in.presses.wait(id, how)
		}
		if waits != nil {
			waits(id.event)
		}
	case gate.PromptForeign:
		say(wordsForeign)
	case gate.PromptClosed:
		in.prompts.ClearPressed(j.event)
		say(wordsClosed)
	}
}

// late corrects the verdict about a press, after another press was stored first.
func (j *judgement) late() {
	for n := range j.verdicts {
		j.verdicts[n].Reason = gate.PromptClosed
	}
	j.to, j.holder, j.press = nil, "", nil
}
