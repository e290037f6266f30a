// Package recent remembers the newest of what a bot heard and said: networks name messages without their texts, and tell a
// bot of what it did itself.
package recent

import (
	"context"
	"sync"
)

// Values are the newest values, by their keys, up to a number of them. Their methods may be called from any goroutine.
type Values[K comparable, V any] struct {
	most int // set once

	mu      sync.Mutex // guards the fields below
	values  map[K]V
	order   []K           // a ring; the oldest is at next once it is full
	next    int           // where the next key goes then
	changed chan struct{} // closed and replaced with each value
}

// New makes room for so many values.
func New[K comparable, V any](most int) *Values[K, V] {
	return &Values[K, V]{most: most, values: make(map[K]V), changed: make(chan struct{})}
}

// Put remembers v under k, in the place of what was remembered there.
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

// Get is what is remembered under k; false: nothing is.
func (r *Values[K, V]) Get(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[k]
	return v, ok
}

// Wait is Get once there is something; false: ctx ended first.
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
