package hub

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// maxDecisions bounds the list `explain` prints.
const maxDecisions = 1000

// decisions remembers the newest verdicts: ids and reasons, never what people wrote.
type decisions struct {
	mu  sync.Mutex // guards all
	all []gate.Decision
}

func (d *decisions) add(x gate.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == maxDecisions {
		d.all = d.all[1:]
	}
	d.all = append(d.all, x)
}

// taken notes when the gateway of i took an event that is remembered.
func (d *decisions) taken(i relay.InstanceID, of store.About, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := len(d.all) - 1; n >= 0; n-- {
		if x := &d.all[n]; x.Event == of.ID && x.Instance == i && x.Reason == gate.Delivered && x.Bot() == of.Bot {
			x.DeliveredAt = at
			return
		}
	}
}

// list is oldest first.
func (d *decisions) list() []gate.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]gate.Decision{}, d.all...)
}
