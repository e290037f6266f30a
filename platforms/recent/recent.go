// Package recent remembers the newest messages and actions that a bot saw or made. It is needed because networks name a
// message without its text, and report a bot's own actions to it.
package recent

import (
	"context"
	"sync"
)

// Values holds the newest values by their keys, up to a fixed number. Its methods may be called from any goroutine.
type Values[K comparable, V any] struct {
	most int // set once

	mu      sync.Mutex // guards the fields below
	values  map[K]V
	order   []K           // a ring, in the order in which the keys were first put
	next    int           // the index of the oldest key once the ring is full: the next new key replaces it
	changed chan struct{} // closed and replaced by each Put
}

// New returns an empty Values that holds up to most values.
func New[K comparable, V any](most int) *Values[K, V] {
	return &Values[K, V]{most: most, values: make(map[K]V), changed: make(chan struct{})}
}

// Put stores v under k, in place of an earlier value. A new key drops the oldest one when there are too many. Putting a
// known key again does not make it newer.
func (r *Values[K, V]) Put(k K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.values[k]; !known {
		if len(r.order) < r.most {
			r.order = append(r.order, k)
		} else {
			delete(r.values, r.order[r.next])
			r.order[r.next] = k
			r.next = (r.next + 1) % r.most
		}
	}
	r.values[k] = v
	close(r.changed)
	r.changed = make(chan struct{})
}

// Get returns the value under k; false: there is none.
func (r *Values[K, V]) Get(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[k]
	return v, ok
}

// Wait waits until there is a value under k, and returns it; false: ctx ended first.
func (r *Values[K, V]) Wait(ctx context.Context, k K) (V, bool) {
	for {
		r.mu.Lock()
		v, ok := r.values[k]
		changed := r.changed
		r.mu.Unlock()
		if ok {
			return v, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v, false
		}
	}
}
