package fair

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// A transfer is slow that moved less than slowest bytes a second in the last whole window.
	slowest = 16 << 10
	window  = 10 * time.Second
	// patience is how long somebody waits before even a place whose transfer is not slow is asked back: at a rate just
	// above slow, the holders would keep all places for as long as a transfer may take.
	patience = 3 * time.Second
	// pressEvery is how often a waiting request looks for places to ask back.
	pressEvery = time.Second
	// maxWaiting is how many requests of one instance may wait: gateways transfer one file after the other.
	maxWaiting = 16
)

// ErrAskedBack is the cause when the context of a place ends because somebody else needed the place.
var ErrAskedBack = errors.New("others waited for its place")

// Places bounds what runs at a time. Its methods may be called from any goroutine.
type Places struct {
	// Set once, by NewPlaces: how many places there are, and how many of them one instance may hold.
	all, each int

	mu      sync.Mutex // guards the fields below, and those of every Place
	tally   Tally      // each owner's places: held and not asked back, or promised to it as the heir of another
	held    []*Place   // those asked back, too, until Leave
	waiting []*Place   // the oldest first; without heirs
	pressed time.Time  // when press last looked for places to ask back
}

// Place is a place, or the wait for one. Its methods may be called from any goroutine.
type Place struct {
	// Set once.
	places *Places
	owner  Owner
	since  time.Time               // when the wait for it began
	in     chan struct{}           // closed when it is held
	stop   context.CancelCauseFunc // ends the context of Enter

	began      time.Time // of the window that runs
	moved, was int64     // bytes: in that window, and in the one before
	judged     bool      // there was a window before
	settled    bool      // it is never asked back
	asked      bool      // it was asked back
	heir       *Place    // the wait for which this place was asked back, and which gets it after Leave; nil: none
	from       *Place    // the place whose heir this wait is
}

// NewPlaces makes all places, of which an instance has at most each.
func NewPlaces(all, each int) *Places { return &Places{all: all, each: each} }

// Try takes a place if one is free that o may have. Such a place is never asked back.
func (p *Places) Try(o Owner) (*Place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &Place{places: p, owner: o, in: make(chan struct{}), stop: func(error) {}, settled: true}
	return l, p.takeLocked(l)
}

// Free returns how many places nobody holds.
func (p *Places) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all - len(p.held)
}

// Compare is Tally.Compare of the places.
func (p *Places) Compare(a, b Owner) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tally.Compare(a, b)
}

// Enter waits for a place until the time within is over or ctx ends. If ok, the caller calls Leave when it is done. The
// caller must end soon when the returned context ends: if the place was asked back, ErrAskedBack is the cause.
func (p *Places) Enter(ctx context.Context, o Owner, within time.Duration) (_ context.Context, _ *Place, ok bool) {
	hold, stop := context.WithCancelCause(ctx)
	l := &Place{places: p, owner: o, since: time.Now(), in: make(chan struct{}), stop: stop}
	if !p.queue(l) {
		stop(nil)
		return ctx, nil, false
	}
	look := time.NewTicker(pressEvery)
	defer look.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case <-l.in:
			return hold, l, true
		case <-look.C:
			p.press()
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		if p.withdraw(l) {
			stop(nil)
			return ctx, nil, false
		}
		return hold, l, true
	}
}

// queue gives l a place, or makes it wait for one. It reports false when too many requests of l's instance wait
// already.
func (p *Places) queue(l *Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.takeLocked(l) {
		return true
	}
	n := 0
	for _, w := range p.waiting {
		if w.owner == l.owner {
			n++
		}
	}
	if n >= maxWaiting {
		return false
	}
	p.waiting = append(p.waiting, l)
	p.pressLocked(l, time.Now())
	return true
}

// withdraw ends the wait of l. It reports false when l got its place meanwhile.
func (p *Places) withdraw(l *Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case slices.Contains(p.held, l):
		return false
	case l.from != nil:
		l.from.heir = nil
		p.tally.Add(-1, l.owner)
	default:
		p.waiting = without(p.waiting, l)
	}
	return true
}

// mayLocked reports whether o may have one of the free places. p.mu must be held.
func (p *Places) mayLocked(o Owner) bool {
	_, own := p.tally.Of(o)
	return len(p.held) < p.all && own < int64(p.each)
}

// takeLocked gives l a free place, if it may have one. p.mu must be held.
func (p *Places) takeLocked(l *Place) bool {
	if !p.mayLocked(l.owner) {
		return false
	}
	p.tally.Add(1, l.owner)
	p.holdLocked(l)
	return true
}

// holdLocked lets l in, which the tally counts already. p.mu must be held.
func (p *Places) holdLocked(l *Place) {
	p.held = append(p.held, l)
	l.from, l.began = nil, time.Now()
	close(l.in)
}

// Leave gives the place back. Called again it does nothing.
func (l *Place) Leave() {
	l.stop(nil)
	p := l.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.held, l) {
		return
	}
	p.held = without(p.held, l)
	if !l.asked {
		p.tally.Add(-1, l.owner)
	}
	if l.heir != nil {
		p.holdLocked(l.heir)
		return
	}
	for { // one that left may let in another of its instance, and free a place for others
		may := slices.DeleteFunc(slices.Clone(p.waiting), func(w *Place) bool { return !p.mayLocked(w.owner) })
		if len(may) == 0 {
			return
		}
		next := slices.MinFunc(may, func(a, b *Place) int { return p.tally.Compare(a.owner, b.owner) })
		p.waiting = without(p.waiting, next)
		p.takeLocked(next)
	}
}

// Moved says that the transfer in this place has moved n more bytes.
func (l *Place) Moved(n int) {
	l.places.mu.Lock()
	defer l.places.mu.Unlock()
	l.rollLocked(time.Now())
	l.moved += int64(n)
}

// Settle notes that all bytes of the transfer have arrived. The place is not asked back any more, because what remains
// to be done waits for nobody.
func (l *Place) Settle() {
	l.places.mu.Lock()
	defer l.places.mu.Unlock()
	l.settled = true
}

// rollLocked begins the window in which now lies, if the running one is over. l.places.mu must be held.
func (l *Place) rollLocked(now time.Time) {
	passed := now.Sub(l.began) / window
	if passed == 0 {
		return
	}
	if l.was = 0; passed == 1 {
		l.was = l.moved
	}
	l.moved, l.judged, l.began = 0, true, l.began.Add(passed*window)
}

// isSlowLocked reports whether the last whole window was too slow. l.places.mu must be held.
func (l *Place) isSlowLocked(now time.Time) bool {
	l.rollLocked(now)
	return l.judged && l.was < slowest*int64(window/time.Second)
}

// press asks places back for all that wait, in the order of their turns.
func (p *Places) press() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.pressed) < pressEvery/2 { // another waiting request has just done the same
		return
	}
	p.pressed = now
	all := slices.Clone(p.waiting)
	slices.SortStableFunc(all, func(a, b *Place) int { return p.tally.Compare(a.owner, b.owner) })
	for _, l := range all {
		p.pressLocked(l, now)
	}
}

// pressLocked asks a place back for l, if one should give way to it. p.mu must be held.
func (p *Places) pressLocked(l *Place, now time.Time) {
	v := p.givesWayLocked(l, now)
	if v == nil {
		return
	}
	p.tally.Add(-1, v.owner)
	p.tally.Add(1, l.owner)
	v.asked, v.heir, l.from = true, l, v
	p.waiting = without(p.waiting, l)
	v.stop(ErrAskedBack)
}

// givesWayLocked returns the place to ask back for l; nil: none. Of the places that may be asked back (invariant 3) it
// is a slow one, if there is any; then one of the owner with the most; then the one that moved the least. p.mu must be
// held.
func (p *Places) givesWayLocked(l *Place, now time.Time) (gives *Place) {
	_, own := p.tally.Of(l.owner)
	impatient := now.Sub(l.since) >= patience
	for _, v := range p.held {
		slow := v.isSlowLocked(now)
		more := p.tally.Against(v.owner, l.owner, 1)
		switch {
		case v.asked, v.settled, own >= int64(p.each) && v.owner != l.owner:
			continue // promised, safe, or of no use to l, whose instance holds as many as it may
		case slow && more >= 0, impatient && more > 0:
		default:
			continue
		}
		if gives == nil || cmp.Or(slowFirst(slow, gives.isSlowLocked(now)), p.tally.Compare(v.owner, gives.owner), cmp.Compare(gives.was+gives.moved, v.was+v.moved)) > 0 {
			gives = v
		}
	}
	return gives
}

// slowFirst is above zero if the first is slow and the second is not.
func slowFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func without(all []*Place, l *Place) []*Place {
	return slices.DeleteFunc(all, func(x *Place) bool { return x == l })
}
