package hub

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay/gate"
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

// list is oldest first.
func (d *decisions) list() []gate.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]gate.Decision{}, d.all...)
}
