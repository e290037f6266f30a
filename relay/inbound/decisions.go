package inbound

import (
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// maxDecisions bounds the list `explain` prints.
const maxDecisions = 1000

// Decisions are the newest verdicts: ids and reasons, never what people wrote. The zero value has none. Its methods may
// be called from any goroutine.
type Decisions struct {
	mu  sync.Mutex // guards all
	all []gate.Decision
}

func (d *Decisions) add(x gate.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == maxDecisions {
		d.all = d.all[1:]
	}
	d.all = append(d.all, x)
}

// Taken notes when the gateway of i acknowledged an event, if the verdict about the event is still remembered.
func (d *Decisions) Taken(i relay.InstanceID, of store.About, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range slices.Backward(d.all) {
		if x := &d.all[n]; x.Event == of.ID && x.Instance == i && x.Reason == gate.Delivered && x.Bot() == of.Bot {
			x.DeliveredAt = at
			return
		}
	}
}

// Forget removes the verdicts about messages that a person wrote to i or to nobody.
func (d *Decisions) Forget(i relay.InstanceID, p relay.PlatformID, u relay.UserID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(x gate.Decision) bool {
		return x.Platform == p && x.User == u && (x.Instance == i || x.Instance == "")
	})
}

// List returns the verdicts, oldest first, at most maxDecisions.
func (d *Decisions) List() []gate.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]gate.Decision{}, d.all...)
}
