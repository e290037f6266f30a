package hub

import (
	"maps"
	"sync"
)

// counters are named totals since the start, for `status` and metrics. Names are from the enumerations
// of gate reasons and counts, never from what a gateway or a person sent.
type counters struct {
	mu sync.Mutex // guards n
	n  map[string]uint64
}

func (c *counters) add(name string, by uint64) {
	if by == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]uint64)
	}
	c.n[name] += by
}

func (c *counters) snapshot() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := maps.Clone(c.n)
	if out == nil {
		out = make(map[string]uint64)
	}
	return out
}

// Count adds one to a counter, for parts that have none of their own.
func (h *Hub) Count(name string) { h.counters.add(name, 1) }
