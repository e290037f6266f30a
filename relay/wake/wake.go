// Package wake pokes the wake URL of an instance that has entries waiting and no session, so
// that whatever runs its gateway starts it.
//
// It does not deliver, and it does not decide which URLs may be requested: its client does (relay/guard). Its state is
// in memory; after a restart the store says who waits.
//
// Invariants:
//
//  1. An instance is poked only while it is not connected, has no quiet hours and has a wake URL, and entries wait for
//     it or somebody has asked for it. All of that is checked again right before the request.
//  2. Two pokes of one instance begin at least a cooldown apart. While no session comes, the pause doubles, up to
//     Options.Most; a session that came, or an entry that was appended since, shortens it to the rest of the cooldown.
//  3. At most maxPokes requests run at once, half of them for one tenant, and at most maxPerHost of a tenant's to one
//     host. So hosts that hang hold up no other host until they fill their tenant's half, and no other tenant. When
//     places are scarce, tenants take turns.
//  4. A wake URL is in no log line and no error: it may carry a token.
//  5. While nothing waits, nothing runs: no timer, no request, no look into the store.
package wake

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	maxPokes     = 64
	maxPerTenant = maxPokes / 2 // so a tenant's thirty switched-off machines, at ten seconds each, delay no other tenant
	maxPerHost   = 2
	// settle is how long after an entry came to a connected instance the instance is looked at: a gateway that sent
	// going_idle hangs up within ten seconds (wire.md 3.1.4).
	settle = 15 * time.Second
)

// Instances is the part of the store a waker needs. *store.DB implements it.
type Instances interface {
	Instances(ctx context.Context, ids ...relay.InstanceID) ([]store.Instance, error)
}

// Lanes is the part of the store that knows the waiting entries. *store.Lanes implements it.
type Lanes interface {
	State(ctx context.Context, id relay.InstanceID) (store.Lane, error)
}

// Presence knows which instances are served. *hub.Hub implements it.
type Presence interface {
	// Awake reports whether a session serves the instance now and has not gone idle. It does not block.
	Awake(id relay.InstanceID) bool
}

// Getter sends the requests. The client of a guard.Guard implements it: it decides which addresses may be requested,
// follows no redirect, and gives up by itself.
type Getter interface {
	Do(*http.Request) (*http.Response, error)
}

// Options are a waker's settings; the zero value means the defaults.
type Options struct {
	Cooldown time.Duration       // least time between two pokes of one instance; 0 means 60 s
	Most     time.Duration       // most time between two while entries wait; 0 means 30 min, at least Cooldown
	Count    func(count.Counter) // called for every poke; nil: not counted
	Log      *slog.Logger        // nil means discard
}

// Waker pokes wake URLs. Make one with New, run it once.
type Waker struct {
	// Set once, by New.
	db    Instances
	lanes Lanes
	live  Presence
	get   Getter
	opts  Options

	look  chan struct{} // capacity 1: when full, a look is due anyway
	pokes sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	targets map[relay.InstanceID]*target
	running places                     // requests under way
	last    map[relay.InstanceID]*Poke // the newest pokes; it keeps none of an instance that is gone or has no wake URL any more
}

// New makes a waker. Nothing is poked before Run.
func New(db Instances, lanes Lanes, live Presence, get Getter, o Options) *Waker {
	if o.Cooldown <= 0 {
		o.Cooldown = time.Minute
	}
	if o.Most <= 0 {
		o.Most = 30 * time.Minute
	}
	o.Most = max(o.Most, o.Cooldown)
	if o.Count == nil {
		o.Count = func(count.Counter) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Waker{
		db: db, lanes: lanes, live: live, get: get, opts: o,
		look:    make(chan struct{}, 1),
		targets: make(map[relay.InstanceID]*target),
		running: places{shares: make(map[share]int)},
		last:    make(map[relay.InstanceID]*Poke),
	}
}

// Grew says that entries were appended for an instance, or that a setting of it was changed. It may be called from any
// goroutine, also before Run, and does not block. A connected instance is looked at a little later: its session may end
// before it has acknowledged the entry, and nothing else would make Run look.
func (w *Waker) Grew(i relay.InstanceID) {
	connected := w.live.Awake(i)
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.targets[i]
	switch {
	case ok && connected:
		t.grew = true // a look at it is planned already
		return
	case !ok:
		t = &target{pause: w.opts.Cooldown}
		w.targets[i] = t
	}
	t.grew = true
	if connected {
		t.look = now.Add(min(settle, w.opts.Cooldown))
	} else {
		t.soon(w.opts.Cooldown)
		t.look = now
		if t.next.After(now) {
			t.look = t.next
		}
	}
	w.signal()
}

// signal makes Run look. It does not block.
func (w *Waker) signal() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// Run pokes until ctx ends, and then returns nil. Of the instances with entries waiting at the start, those that sleep
// are poked at once; those that vanished get a cooldown's time to dial by themselves.
func (w *Waker) Run(ctx context.Context) error {
	defer w.pokes.Wait()
	w.remember(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, ok := w.round(ctx)
		timer.Stop()
		if ok {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.look:
		case <-timer.C:
		}
	}
}

// remember finds the instances with entries waiting at the start.
func (w *Waker) remember(ctx context.Context) {
	all, err := w.db.Instances(ctx)
	if err != nil {
		w.opts.Log.Warn("the instances could not be read at the start; the next event for an instance wakes that instance", "err", err)
		return
	}
	for _, i := range all {
		if i.WakeURL == "" || w.live.Awake(i.ID) {
			continue
		}
		lane, err := w.lanes.State(ctx, i.ID)
		if err != nil {
			w.opts.Log.Warn("the buffer could not be read at the start; the next event wakes its instance", "instance", i.ID, "err", err)
			continue
		}
		if lane.Entries == 0 {
			continue
		}
		first := time.Now()
		if !i.Asleep {
			first = first.Add(w.opts.Cooldown)
		}
		w.mu.Lock()
		if w.targets[i.ID] == nil {
			w.targets[i.ID] = &target{look: first, next: first, pause: w.opts.Cooldown}
		}
		w.mu.Unlock()
	}
}

// round looks at every instance that is due, as long as requests may begin, and returns when the next one is due; ok is
// false if none is. Instances that were passed over are looked at when a request ends.
func (w *Waker) round(ctx context.Context) (next time.Time, ok bool) {
	now := time.Now()
	due := w.due(now)
	w.learn(ctx, due)
	for {
		i, ok := w.turn(due)
		if !ok || ctx.Err() != nil || !w.consider(ctx, i) {
			break
		}
		due = slices.DeleteFunc(due, func(x relay.InstanceID) bool { return x == i })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.targets {
		if !t.busy && t.look.After(now) && (!ok || t.look.Before(next)) {
			next, ok = t.look, true
		}
	}
	return next, ok
}

// due returns the instances to look at, the longest waiting first.
func (w *Waker) due(now time.Time) []relay.InstanceID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []relay.InstanceID
	for id, t := range w.targets {
		if !t.busy && !t.look.After(now) {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b relay.InstanceID) int {
		return cmp.Or(w.targets[a].look.Compare(w.targets[b].look), cmp.Compare(a, b))
	})
	return all
}
