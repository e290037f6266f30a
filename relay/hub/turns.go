package hub

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxTurns bounds how much is remembered for interrupts, in each of two generations: up to two
// entries for a conversation.
const maxTurns = 10_000

// turns remembers which instance runs which session key, so that an interrupt finds its way. It
// is a convenience of the running process: after a restart it fills again with the next events.
type turns struct {
	mu    sync.Mutex // guards the fields below
	young map[turnKey]turn
	old   map[turnKey]turn
}

type turnKey struct {
	tenant   relay.TenantID
	instance relay.InstanceID // empty: whichever of the tenant received the last event
	key      relay.SessionKey
}

type turn struct {
	instance relay.InstanceID
	chat     relay.ChatID
}

// remember notes that an instance of the tenant runs the key.
func (t *turns) remember(tenant relay.TenantID, key relay.SessionKey, v turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young == nil || len(t.young) >= maxTurns {
		t.old, t.young = t.young, make(map[turnKey]turn)
	}
	t.young[turnKey{tenant, v.instance, key}] = v
	t.young[turnKey{tenant, "", key}] = v
}

// find is the turn of the key that the instance runs itself, else one of its tenant. Several
// instances may run one key: an owner's and the holder of the chat received the same message.
func (t *turns) find(tenant relay.TenantID, i relay.InstanceID, key relay.SessionKey) (turn, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []turnKey{{tenant, i, key}, {tenant, "", key}} {
		for _, generation := range []map[turnKey]turn{t.young, t.old} {
			if v, ok := generation[k]; ok {
				return v, true
			}
		}
	}
	return turn{}, false
}
