package hub

import (
	"maps"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// unboundSweep is the least time between two looks for what expired.
const unboundSweep = time.Minute

// unbound holds the capabilities of events that wait undecided, until the verdict says whose they
// are, or that they are nobody's. They are in memory only: after a restart such an event is judged
// without its capability. Methods may be called from any goroutine.
type unbound struct {
	mu    sync.Mutex // guards the fields below
	by    map[capabilityKey]platforms.Capability
	swept time.Time
}

// hold keeps the capability of an event of the bot until it is taken or expires. It is called before
// the commit that stores the event undecided; where that fails, take undoes it.
func (u *unbound) hold(b relay.Bot, c platforms.Capability) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.by == nil {
		u.by = make(map[capabilityKey]platforms.Capability)
	}
	if now.Sub(u.swept) >= unboundSweep {
		u.swept = now
		maps.DeleteFunc(u.by, func(_ capabilityKey, c platforms.Capability) bool { return !now.Before(c.ExpiresAt) })
	}
	u.by[capabilityKey{b, c.Event}] = c
}

// take hands out the capability of an event, once. ok is false when none is held, or it has expired.
func (u *unbound) take(b relay.Bot, e relay.EventID) (c platforms.Capability, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := capabilityKey{b, e}
	c, ok = u.by[key]
	delete(u.by, key)
	if !ok || !time.Now().Before(c.ExpiresAt) {
		return platforms.Capability{}, false
	}
	return c, true
}

// all hands out what is held.
func (u *unbound) all() (out []Held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, c := range u.by {
		if time.Now().Before(c.ExpiresAt) {
			out = append(out, Held{Capability: c, Bot: k.bot})
		}
	}
	u.by = nil
	return out
}
