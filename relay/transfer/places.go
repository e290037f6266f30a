package transfer

import (
	"context"
	"slices"
	"sync"
)

// maxWaiting is how many transfers of one caller wait for a place: gateways move one file after the other.
const maxWaiting = 16

// places bounds the transfers at a time: all of them together, and those of each caller. Who comes first gets the next
// place that he may have. Its methods may be called from any goroutine.
type places struct {
	// Set once, by newPlaces.
	all, each int

	mu      sync.Mutex // guards the fields below
	held    int
	by      map[string]int // never 0: bounded by what is held
	waiting []*waiter      // the oldest first
}

// waiter is a transfer that waits.
type waiter struct {
	who string
	in  chan struct{} // closed when it has its place
}

func newPlaces(all, each int) *places {
	return &places{all: all, each: each, by: make(map[string]int)}
}

// enter waits for a place until ctx ends. ok says that leave must be called once, when the transfer is done.
func (p *places) enter(ctx context.Context, who string) (leave func(), ok bool) {
	p.mu.Lock()
	if p.takeLocked(who) {
		p.mu.Unlock()
		return p.leaver(who), true
	}
	var others int
	for _, w := range p.waiting {
		if w.who == who {
			others++
		}
	}
	if others >= maxWaiting {
		p.mu.Unlock()
		return nil, false
	}
	w := &waiter{who: who, in: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case <-w.in:
		return p.leaver(who), true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 { // it got its place meanwhile
		return p.leaver(who), true
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return nil, false
}

// takeLocked takes a place if there is one. p.mu must be held.
func (p *places) takeLocked(who string) bool {
	if p.held >= p.all || p.by[who] >= p.each {
		return false
	}
	p.held++
	p.by[who]++
	return true
}

// leaver gives a place back, to the first who waits and may have it.
func (p *places) leaver(who string) func() {
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held--
		if p.by[who]--; p.by[who] == 0 {
			delete(p.by, who)
		}
		i := slices.IndexFunc(p.waiting, func(w *waiter) bool { return p.takeLocked(w.who) })
		if i >= 0 {
			close(p.waiting[i].in)
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
	})
}
