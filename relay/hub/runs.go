package hub

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const (
	// maxRuns bounds how much is remembered in each of two generations: up to two entries for a session key, of which
	// a conversation has up to three.
	maxRuns = 10_000
	// runsFor is how long after its last delivery a key is taken to run something that a person's /stop can end.
	runsFor = time.Hour
)

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

// find is the run of the key that is the instance's own, else one of its tenant. Several
// instances may run one key: an owner's and the holder of the chat received the same message.
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

// atLocked is what is remembered under k. t.mu must be held.
func (t *runs) atLocked(k runKey) (v run, ok bool) {
	if v, ok = t.young[k]; !ok {
		v, ok = t.old[k]
	}
	return v, ok
}

// recent is the instance's own run of the key, if something was delivered there for it a short while before now.
func (t *runs) recent(tenant relay.TenantID, i relay.InstanceID, key relay.SessionKey, now time.Time) (run, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.atLocked(runKey{tenant, i, key})
	return v, ok && now.Sub(v.at) <= runsFor
}

// interruptFor has every instance that is about to get a person's /stop stop its run first. It comes before the message
// is stored: once that is in the lane, nothing could overtake it any more; and it must not wait behind a backlog. Which
// settings the gateway has we cannot know: every key that may be meant is told, and one that runs nothing does nothing.
func (h *Hub) interruptFor(j judgement) {
	if !saysStop(j.event) {
		return
	}
	src := j.event.Source
	keys := sessionkey.Forms(src)
	if src.ThreadID == "" || string(src.ThreadID) == string(src.ChatID) { // else those of a forward are of the chat around the thread
		keys = append(keys, sessionkey.Forwarded(src)...)
	}
	for _, v := range j.verdicts {
		if v.Reason != gate.Delivered {
			continue
		}
		for _, key := range keys {
			if t, ok := h.runs.recent(v.Tenant, v.Instance, key, time.Now()); ok {
				h.bus.Publish(bus.Interrupt{Instance: v.Instance, Session: key, Chat: t.chat})
			}
		}
	}
}

// saysStop reports whether ev is a person's /stop, as gateways read commands: the first word, in any case, and what
// follows an "@" does not count. One for another bot is delivered to nobody.
func saysStop(ev relay.Event) bool {
	words := strings.Fields(ev.Text)
	if len(words) == 0 || ev.Traits.AuthorIsBot || ev.Prompt != nil {
		return false
	}
	name, _, _ := strings.Cut(words[0], "@")
	return strings.EqualFold(name, "/stop")
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

// interruptLocal hands an interrupt to the session that serves the instance, unless its gateway went idle. However many
// there are, they do not end the session.
func (h *Hub) interruptLocal(n bus.Interrupt) {
	if s := h.seat(n.Instance); s != nil {
		s.pump.Awake(func() { s.session.Offer(wire.InterruptInbound{Session: n.Session, Chat: n.Chat}) })
	}
}
