package inbound

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxRuns is how many entries are remembered in each of two generations. A session key has up to two entries, and a
	// conversation up to three keys, on Slack up to eight.
	maxRuns = 10_000
	// runsFor is how long after its last delivery a key is assumed to run something that a person's /stop can end.
	runsFor = time.Hour
)

// runs remembers which instance runs which session key, so that an interrupt finds its way. After a restart it fills
// again with the next events.
type runs struct {
	mu    sync.Mutex // guards the fields below
	young map[runKey]run
	old   map[runKey]run
}

// runKey names an instance's session key.
type runKey struct {
	tenant   relay.TenantID
	instance relay.InstanceID // empty: whichever of the tenant received the last event
	key      relay.SessionKey
}

// run is what is remembered of a session key: which instance runs it, for which chat.
type run struct {
	instance relay.InstanceID
	chat     relay.ChatID
	at       time.Time // of the last delivery
}

// remember notes that an instance of the tenant runs one of the keys.
func (t *runs) remember(tenant relay.TenantID, keys []relay.SessionKey, v run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.young == nil || len(t.young) >= maxRuns {
		t.old, t.young = t.young, make(map[runKey]run)
	}
	for _, key := range keys {
		t.young[runKey{tenant, v.instance, key}] = v
		t.young[runKey{tenant, "", key}] = v
	}
}

// find returns the run of the key that is the instance's own, else the newest one of its tenant. Several instances may
// run one key: an owner's and the holder of the chat received the same message.
func (t *runs) find(tenant relay.TenantID, i relay.InstanceID, key relay.SessionKey) (run, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []runKey{{tenant, i, key}, {tenant, "", key}} {
		if v, ok := t.atLocked(k); ok {
			return v, true
		}
	}
	return run{}, false
}

// atLocked returns the run under k. t.mu must be held.
func (t *runs) atLocked(k runKey) (v run, ok bool) {
	if v, ok = t.young[k]; !ok {
		v, ok = t.old[k]
	}
	return v, ok
}

// recent returns the instance's own run of the key, if something was delivered for the key within runsFor before now.
func (t *runs) recent(tenant relay.TenantID, i relay.InstanceID, key relay.SessionKey, now time.Time) (run, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.atLocked(runKey{tenant, i, key})
	return v, ok && now.Sub(v.at) <= runsFor
}
