package hub

import (
	"context"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// maxRuns bounds how much is remembered in each of two generations: up to two entries for a session key.
const maxRuns = 10_000

// runs remembers which instance runs which session key, so that an interrupt finds its way. After a restart it fills
// again with the next events.
type runs struct {
	mu    sync.Mutex // guards the fields below
	young map[runKey]run
	old   map[runKey]run
}

type runKey struct {
	tenant   relay.TenantID
	instance relay.InstanceID // empty: whichever of the tenant received the last event
	key      relay.SessionKey
}

type run struct {
	instance relay.InstanceID
	chat     relay.ChatID
}

// remember notes that an instance of the tenant runs the key.
func (t *runs) remember(tenant relay.TenantID, key relay.SessionKey, v run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young == nil || len(t.young) >= maxRuns {
		t.old, t.young = t.young, make(map[runKey]run)
	}
	t.young[runKey{tenant, v.instance, key}] = v
	t.young[runKey{tenant, "", key}] = v
}

// find is the run of the key that is the instance's own, else one of its tenant. Several
// instances may run one key: an owner's and the holder of the chat received the same message.
func (t *runs) find(tenant relay.TenantID, i relay.InstanceID, key relay.SessionKey) (run, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []runKey{{tenant, i, key}, {tenant, "", key}} {
		for _, generation := range []map[runKey]run{t.young, t.old} {
			if v, ok := generation[k]; ok {
				return v, true
			}
		}
	}
	return run{}, false
}

// Interrupt hands a gateway's request to stop a run to the instance of its tenant that runs the key.
func (s *seat) Interrupt(_ context.Context, key relay.SessionKey, _ *string) {
	h := s.hub
	t, ok := h.runs.find(s.peer.Tenant, s.peer.Instance, key)
	if !ok {
		h.counters.Add(count.InterruptUnknown, 1)
		return
	}
	h.bus.Publish(bus.Interrupt{Instance: t.instance, Session: key, Chat: t.chat})
}

// interruptLocal hands an interrupt to the session that serves the instance, unless its gateway went idle.
func (h *Hub) interruptLocal(n bus.Interrupt) {
	if s := h.seat(n.Instance); s != nil && !s.pump.Flipped() {
		s.session.Tell(wire.InterruptInbound{Session: n.Session, Chat: n.Chat})
	}
}
