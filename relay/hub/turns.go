package hub

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxTurns bounds how many conversations are remembered for interrupts, in two generations.
const maxTurns = 5_000

// turns remembers which instance runs which session key, so that an interrupt finds its way. It
// is a convenience of the running process: after a restart it fills again with the next events.
type turns struct {
	mu    sync.Mutex // guards the fields below
	young map[turnKey]turn
	old   map[turnKey]turn
}

type turnKey struct {
	tenant relay.TenantID
	key    relay.SessionKey
}

type turn struct {
	instance relay.InstanceID
	chat     relay.ChatID
}

func (t *turns) remember(k turnKey, v turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young == nil || len(t.young) >= maxTurns {
		t.old, t.young = t.young, make(map[turnKey]turn)
	}
	t.young[k] = v
}

func (t *turns) find(k turnKey) (turn, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok := t.young[k]; ok {
		return v, true
	}
	v, ok := t.old[k]
	return v, ok
}
