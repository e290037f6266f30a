package gate

import (
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Owned is one of the instances an author is linked to.
type Owned struct {
	Instance relay.InstanceID
	// DMDefault: this one gets the author's direct messages.
	DMDefault bool
}

// OwnInstance chooses the one of an author's own instances that may receive the event: in a shared chat the holder
// of the grant covering it; in a direct message the one that the message names; else the first one marked as default for direct messages; else the one they were bound to
// first. owned is in the order of binding; holder and named are empty if there is none. ok is false if nothing is owned.
func OwnInstance(owned []Owned, holder, named relay.InstanceID, direct bool) (_ relay.InstanceID, ok bool) {
	if len(owned) == 0 {
		return "", false
	}
	chosen := holder
	if direct {
		chosen = named
	}
	if slices.ContainsFunc(owned, func(o Owned) bool { return o.Instance == chosen }) {
		return chosen, true
	}
	return owned[max(0, slices.IndexFunc(owned, func(o Owned) bool { return o.DMDefault }))].Instance, true
}
