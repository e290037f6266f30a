package session

import "github.com/hermes-connector/hermes-connector/relay"

// replaces reports whether newer, in the same line, makes a waiting older one pointless: a newer
// text for the same message, or a newer sign of work in the same thread. Both must name their chat
// alike: of two ways to spell it one may be refused.
func replaces(newer, older relay.Action) bool {
	switch n := newer.(type) {
	case relay.Edit:
		o, ok := older.(relay.Edit)
		return ok && o.Message == n.Message && o.Chat == n.Chat && o.Meta.ThreadID == n.Meta.ThreadID
	case relay.Typing:
		o, ok := older.(relay.Typing)
		return ok && o.Chat == n.Chat && o.Meta.ThreadID == n.Meta.ThreadID
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
