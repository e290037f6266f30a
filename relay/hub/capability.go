package hub

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Held is a capability bound to the instance that received its event; to none while it waits for a verdict.
type Held struct {
	platforms.Capability
	Bot        relay.Bot
	Tenant     relay.TenantID
	Instance   relay.InstanceID
	Chat       relay.ChatID
	Session    relay.SessionKey
	*answering // what all copies share; made by Keep
}

// answering is about the answers given through a capability. Only one has the right to be the first, which stays
// taken whatever becomes of it, unless certainly nothing was sent: no other may replace what may stand there.
type answering struct {
	begun    atomic.Bool   // the right to be the first is taken
	underWay chan struct{} // capacity 1: full while one is given
}

// Keeper keeps capabilities until they expire. Its methods may be called from any goroutine; none blocks.
type Keeper interface {
	// Keep keeps h, unless the instance has a capability of that event already. lost are those that had to go.
	Keep(h Held) (kept bool, lost []Held)
	// Reply is the one that a send in the chat answers through: the one replyTo names, else the oldest unanswered.
	Reply(i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (Held, bool)
	// Bound is the newest of that kind bound to the tenant's and instance's session.
	Bound(t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (Held, bool)
	// OfEvent is the one that came in the event the instance received.
	OfEvent(i relay.InstanceID, b relay.Bot, e relay.EventID) (Held, bool)
	// Forget drops h, if it is there.
	Forget(h Held)
	// Unanswered are those nobody has answered through and that end with the process.
	Unanswered() []Held
}

// maxHeld bounds the capabilities kept for one instance. Past it the oldest go.
const maxHeld = 10_000

// memoryKeeper keeps capabilities in memory: after a restart the answers go out as ordinary messages.
type memoryKeeper struct {
	mu sync.Mutex                   // guards by and what it leads to
	by map[relay.InstanceID][]*Held // in the order they came
}

var _ Keeper = (*memoryKeeper)(nil)

// newMemoryKeeper makes an empty keeper.
func newMemoryKeeper() *memoryKeeper {
	return &memoryKeeper{by: make(map[relay.InstanceID][]*Held)}
}

func (k *memoryKeeper) Keep(h Held) (kept bool, lost []Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.findLocked(h.Instance, h.is) != nil {
		return false, nil
	}
	mine := k.by[h.Instance]
	if len(mine) >= maxHeld {
		lost = append(lost, *mine[0])
		mine[0] = nil
		mine = mine[1:]
	}
	h.answering = &answering{underWay: make(chan struct{}, 1)}
	k.by[h.Instance] = append(mine, &h)
	return true, lost
}

// is reports whether x is the same capability, held by the same instance.
func (h Held) is(x *Held) bool {
	return x.Instance == h.Instance && x.Bot == h.Bot && x.Event == h.Event
}

// findLocked is the instance's oldest that ok admits, or nil. k.mu must be held.
func (k *memoryKeeper) findLocked(i relay.InstanceID, ok func(*Held) bool) *Held {
	if n := slices.IndexFunc(k.liveLocked(i), ok); n >= 0 {
		return k.by[i][n]
	}
	return nil
}

// liveLocked are the instance's, of which it drops those that expired, their tokens too. k.mu must be held.
func (k *memoryKeeper) liveLocked(i relay.InstanceID) []*Held {
	now := time.Now()
	k.dropLocked(i, func(x *Held) bool { return !now.Before(x.ExpiresAt) })
	return k.by[i]
}

// dropLocked forgets those of the instance's that are to go. k.mu must be held.
func (k *memoryKeeper) dropLocked(i relay.InstanceID, goes func(*Held) bool) {
	if k.by[i] = slices.DeleteFunc(k.by[i], goes); len(k.by[i]) == 0 {
		delete(k.by, i)
	}
}

// find is a copy of what findLocked finds.
func (k *memoryKeeper) find(i relay.InstanceID, ok func(*Held) bool) (Held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.findLocked(i, ok); x != nil {
		return *x, true
	}
	return Held{}, false
}

func (k *memoryKeeper) Reply(i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (Held, bool) {
	here := func(x *Held) bool { return x.Bot == chat.Bot && x.Chat == chat.ID }
	if replyTo != "" {
		if h, ok := k.find(i, func(x *Held) bool { return here(x) && x.ID == string(replyTo) }); ok {
			return h, true
		}
	}
	return k.find(i, func(x *Held) bool { return here(x) && !x.begun.Load() })
}

func (k *memoryKeeper) Bound(t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (Held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range slices.Backward(k.liveLocked(i)) {
		if x.Tenant == t && x.Session == s && x.Kind == kind {
			return *x, true
		}
	}
	return Held{}, false
}

func (k *memoryKeeper) OfEvent(i relay.InstanceID, b relay.Bot, e relay.EventID) (Held, bool) {
	return k.find(i, func(x *Held) bool { return x.Bot == b && x.Event == e })
}

func (k *memoryKeeper) Forget(h Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropLocked(h.Instance, h.is)
}

func (k *memoryKeeper) Unanswered() (out []Held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.by {
		for _, x := range k.liveLocked(i) {
			if !x.begun.Load() {
				out = append(out, *x)
			}
		}
	}
	return out
}
