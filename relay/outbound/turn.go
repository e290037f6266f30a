package outbound

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
)

// heard tells the pump what the gateway does in a chat.
func (a *action) heard(sign delivery.Sign) {
	thread := a.request.Action.Within()
	if _, ok := a.who.out.bots.Bot(a.line.Bot).(platforms.Threader); ok {
		thread = "" // such a thread is itself the chat of a.line
	}
	a.who.attachment.Heard(delivery.In(a.line, thread), sign)
}

// signOf returns what an action, done or failed, tells about its gateway's turn. The last answer is sent with a sound,
// and ends the turn even if it cannot be sent, unless the gateway will try again. A reaction replaces the one that says
// that the gateway works. Older gateways do not react, and an edit does not tell whether the message is complete.
func signOf(a relay.Action, err error) delivery.Sign {
	notify := false
	switch a := a.(type) {
	case relay.React: // it need not succeed: not every network takes every emoji
		if !a.Remove && a.Emoji != "👀" {
			return delivery.Closed
		}
		return delivery.Alive
	case relay.Send, relay.SendMedia, relay.FollowUp:
		notify = metaOf(a).Notify
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
