package session

import "github.com/hermes-connector/hermes-connector/relay"

// keyOf is the chat whose actions r waits with.
func keyOf(r relay.Request) chatKey {
	k := chatKey{platform: r.Platform, bot: r.Bot, chat: r.Action.Target()}
	if f, ok := r.Action.(relay.FollowUp); ok {
		k.session = f.Session
	}
	return k
}

// replaces reports whether newer, in the same chat, makes a waiting older one pointless: a newer
// text for the same message, or a newer sign of work in the same thread.
func replaces(newer, older relay.Action) bool {
	switch n := newer.(type) {
	case relay.Edit:
		o, ok := older.(relay.Edit)
		return ok && o.Message == n.Message
	case relay.Typing:
		o, ok := older.(relay.Typing)
		return ok && o.Meta.ThreadID == n.Meta.ThreadID
	}
	return false
}

// replacedResult is the answer to an action that was replaced: success, as if it had been carried
// out and overtaken at once.
func replacedResult(a relay.Action) relay.Result {
	if e, ok := a.(relay.Edit); ok {
		return relay.Result{MessageID: e.Message}
	}
	return relay.Result{}
}
