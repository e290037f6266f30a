package hub

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// maxDecisions bounds the list `explain` prints.
const maxDecisions = 1000

// decisions remembers the newest verdicts: ids and reasons, never what people wrote.
type decisions struct {
	mu   sync.Mutex // guards the fields below
	ring []gate.Decision
	next int // where the next one goes once the ring is full
}

func (d *decisions) add(x gate.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < maxDecisions {
		d.ring = append(d.ring, x)
		return
	}
	d.ring[d.next] = x
	d.next = (d.next + 1) % maxDecisions
}

// list is oldest first.
func (d *decisions) list() []gate.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]gate.Decision, 0, len(d.ring))
	out = append(out, d.ring[d.next:]...)
	return append(out, d.ring[:d.next]...)
}
