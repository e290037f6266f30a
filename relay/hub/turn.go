package hub

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/render"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// eventOf is the event of an entry, as far as its gateway is told of it. ok is false if it cannot be read.
func eventOf(e store.Entry) (ev relay.Event, ok bool) {
	if e.Event != nil {
		return *e.Event, true
	}
	ev, ok = wire.Unpack(e.Frame)
	ev.ID, ev.Bot, ev.At = e.About.ID, e.About.Bot, e.About.At
	return ev, ok
}

// join makes next a part of e; see delivery.Outlet.
func (s *seat) join(e *store.Entry, next store.Entry) bool {
	if e.About.Bot != next.About.Bot || e.About.Chat != next.About.Chat || e.About.User != next.About.User {
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

// where is the conversation that an entry is said in; see delivery.Outlet. An answer to a prompt and a typed approval are
// waited for by the turn that runs, and a stop is meant for it.
func (s *seat) where(e store.Entry) (c delivery.Conversation, urgent bool) {
	ev, _ := eventOf(e)
	c = conversation(relay.Chat{Bot: e.About.Bot, ID: e.About.Chat}, ev.Source.ThreadID)
	return c, ev.Prompt != nil || gate.IsApproval(ev.Text) || saysStop(ev)
}

// conversation is the one of a chat and a thread in it. Some networks name a thread that is a chat.
func conversation(c relay.Chat, thread relay.ThreadID) delivery.Conversation {
	if string(thread) == string(c.ID) {
		thread = ""
	}
	return delivery.Conversation{Chat: c, Thread: thread}
}

// heard tells the pump what the gateway does in a chat.
func (a *action) heard(sign delivery.Sign) {
	thread := a.request.Action.Within()
	if _, ok := a.seat.hub.platform(a.line.Bot).(platforms.Threader); ok {
		thread = "" // it is the chat's id
	}
	a.seat.pump.Heard(conversation(a.line, thread), sign)
}

// signOf is what an action says of its gateway's turn once it was carried out, or failed. The last answer is sent with a
// sound, and ends the turn also where it cannot be sent, unless the gateway will try again; a reaction takes the place of the
// one that says that the gateway works. Older gateways do not react, and who edits a message until it is whole does not say
// that it is.
func signOf(a relay.Action, err error) delivery.Sign {
	notify := false
	switch a := a.(type) {
	case relay.React: // it need not succeed: not every network takes every emoji
		if !a.Remove && a.Emoji != "👀" {
			return delivery.Closed
		}
		return delivery.Alive
	case relay.Send:
		notify = a.Meta.Notify
	case relay.SendMedia:
		notify = a.Meta.Notify
	case relay.FollowUp:
		notify = a.Meta.Notify
	case relay.Edit:
	default:
		return delivery.Alive
	}
	switch {
	case err != nil && (!notify || relay.Explain(err).Retried()):
		return delivery.Alive
	case notify:
		return delivery.Final
	}
	return delivery.Said
}
