package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Held is a capability bound to the instance that received its event.
type Held struct {
	platforms.Capability
	Bot      relay.Bot
	Tenant   relay.TenantID
	Instance relay.InstanceID
	Chat     relay.ChatID
	Session  relay.SessionKey
	Answered bool // an answer through it succeeded
}

// Keeper keeps capabilities until they expire. Its methods may be called from any goroutine;
// none hands out an expired one.
type Keeper interface {
	Keep(ctx context.Context, h Held) error
	// Reply is the one a send of the instance in the chat answers through: the one replyTo names,
	// else the oldest unanswered.
	Reply(ctx context.Context, i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (Held, bool, error)
	// Bound is the newest of that kind bound to the tenant's and instance's session.
	Bound(ctx context.Context, t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (Held, bool, error)
	// OfEvent is the one that came in the event the instance received.
	OfEvent(ctx context.Context, i relay.InstanceID, b relay.Bot, e relay.EventID) (Held, bool, error)
	// Answered notes that an answer through h succeeded; Forget drops it. Absent: nil.
	Answered(ctx context.Context, h Held) error
	Forget(ctx context.Context, h Held) error
}

// maxHeld bounds what one instance's people can make the connector remember; past it the oldest go.
const maxHeld = 256

// memoryKeeper keeps capabilities in this process only: a restart forgets them, and the answers go
// out as ordinary messages then.
type memoryKeeper struct {
	mu sync.Mutex                  // guards by
	by map[relay.InstanceID][]Held // in the order they came; expired ones go when the next is looked for
}

var _ Keeper = (*memoryKeeper)(nil)

// newMemoryKeeper makes an empty keeper.
func newMemoryKeeper() *memoryKeeper {
	return &memoryKeeper{by: make(map[relay.InstanceID][]Held)}
}

func (k *memoryKeeper) Keep(_ context.Context, h Held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := k.liveLocked(h.Instance)
	mine = slices.DeleteFunc(mine, func(x Held) bool { return x.Bot == h.Bot && x.Event == h.Event })
	if len(mine) >= maxHeld {
		mine = mine[1:]
	}
	k.by[h.Instance] = append(mine, h)
	return nil
}

// liveLocked drops what expired and returns the rest. k.mu must be held.
func (k *memoryKeeper) liveLocked(i relay.InstanceID) []Held {
	now := time.Now()
	mine := slices.DeleteFunc(k.by[i], func(x Held) bool { return !now.Before(x.ExpiresAt) })
	if len(mine) == 0 {
		delete(k.by, i)
		return nil
	}
	k.by[i] = mine
	return mine
}

// find is the instance's oldest that ok admits.
func (k *memoryKeeper) find(i relay.InstanceID, ok func(Held) bool) (Held, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := k.liveLocked(i)
	if at := slices.IndexFunc(mine, ok); at >= 0 {
		return mine[at], true
	}
	return Held{}, false
}

func (k *memoryKeeper) Reply(_ context.Context, i relay.InstanceID, chat relay.Chat, replyTo relay.MessageID) (Held, bool, error) {
	here := func(x Held) bool { return x.Bot == chat.Bot && x.Chat == chat.ID }
	if replyTo != "" {
		if h, ok := k.find(i, func(x Held) bool { return here(x) && x.ID == string(replyTo) }); ok {
			return h, true, nil
		}
	}
	h, ok := k.find(i, func(x Held) bool { return here(x) && !x.Answered })
	return h, ok, nil
}

func (k *memoryKeeper) Bound(_ context.Context, t relay.TenantID, i relay.InstanceID, s relay.SessionKey, kind string) (Held, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range slices.Backward(k.liveLocked(i)) {
		if x.Tenant == t && x.Session == s && x.Kind == kind {
			return x, true, nil
		}
	}
	return Held{}, false, nil
}

func (k *memoryKeeper) OfEvent(_ context.Context, i relay.InstanceID, b relay.Bot, e relay.EventID) (Held, bool, error) {
	h, ok := k.find(i, func(x Held) bool { return x.Bot == b && x.Event == e })
	return h, ok, nil
}

func (k *memoryKeeper) Answered(_ context.Context, h Held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, x := range k.by[h.Instance] {
		if x.Bot == h.Bot && x.Event == h.Event {
			k.by[h.Instance][n].Answered = true
		}
	}
	return nil
}

func (k *memoryKeeper) Forget(_ context.Context, h Held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.by[h.Instance] = slices.DeleteFunc(k.by[h.Instance], func(x Held) bool { return x.Bot == h.Bot && x.Event == h.Event })
	return nil
}
