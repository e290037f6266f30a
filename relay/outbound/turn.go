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
		thread = "" // it is the chat's id
	}
	a.who.attachment.Heard(delivery.In(a.line, thread), sign)
}

// signOf is what an action says of its gateway's turn once it was carried out, or failed. The last answer is sent with a
// sound, and ends the turn also where it cannot be sent, unless the gateway will try again; a reaction takes the place of the
// one that says that the gateway works. Older gateways do not react, and an edit does not say that the message is whole.
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
