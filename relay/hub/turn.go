package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/render"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// eventOf returns the event of an entry, as its gateway is told it. ok is false if it cannot be read.
func eventOf(e store.Entry) (ev relay.Event, ok bool) {
	if e.Event != nil {
		return *e.Event, true
	}
	ev, ok = wire.Unpack(e.Frame)
	ev.ID, ev.Bot, ev.At = e.About.ID, e.About.Bot, e.About.At
	return ev, ok
}

// join makes next a part of e; see delivery.Outlet.
func (s *attachment) join(e *store.Entry, next store.Entry) bool {
	if s.oneByOne.Load() {
		return false
	}
	if e.About.Bot != next.About.Bot || e.About.Chat != next.About.Chat || e.About.User != next.About.User {
		return false
	}
	if e.About.Bot.IsProgram() { // each message of a program has its own receipt
		return false
	}
	first, ok := eventOf(*e)
	second, readable := eventOf(next)
	if !ok || !readable {
		return false
	}
	joined, ok := render.Join(first, second)
	if !ok || !wire.Fits(joined) {
		return false
	}
	e.Event, e.Frame = &joined, nil
	return true
}

// where returns the conversation of an entry, and what the entry does while a turn runs there; see delivery.Outlet.
func (s *attachment) where(ctx context.Context, e store.Entry) (c delivery.Conversation, how delivery.Manner) {
	ev, _ := eventOf(e)
	c = delivery.In(relay.Chat{Bot: e.About.Bot, ID: e.About.Chat}, ev.Source.ThreadID)
	switch {
	case s.oneByOne.Load() || gate.Urgent(ev): // for a gateway with OneByOne no message waits (wire.Hello)
		return c, delivery.Urgent
	case e.About.Bot.IsProgram() && relay.WakesAgent(ev):
		return c, delivery.Interrupting
	case e.About.Bot.IsProgram() && s.hub.opts.Programs != nil && s.hub.opts.Programs.Owed(ctx, c.Chat.ID, s.since):
		return c, delivery.Following
	case e.About.Bot.IsProgram():
		return c, delivery.Patient
	}
	return c, delivery.Live
}
