package gate

import (
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Owned is one of the instances an author is bound to.
type Owned struct {
	Instance relay.InstanceID
	// DMDefault: this one gets the author's direct messages.
	DMDefault bool
}

// OwnInstance chooses the one of an author's own instances that may receive the event: in a shared chat the holder
// of the grant covering it; else the first one marked as default for direct messages; else the one they were bound to
// first. owned is in the order of binding; holder is empty if there is none. ok is false if nothing is owned.
func OwnInstance(owned []Owned, holder relay.InstanceID, direct bool) (_ relay.InstanceID, ok bool) {
	if len(owned) == 0 {
		return "", false
	}
	if !direct && slices.ContainsFunc(owned, func(o Owned) bool { return o.Instance == holder }) {
		return holder, true
	}
	return owned[max(0, slices.IndexFunc(owned, func(o Owned) bool { return o.DMDefault }))].Instance, true
}
