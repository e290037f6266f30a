package matrix

import (
	"context"
	"sync"
)

// lately remembers the newest entries, up to a number of them. Its methods may be called from any goroutine.
type lately[K comparable, V any] struct {
	most int // set once

	mu      sync.Mutex // guards the fields below
	values  map[K]V
	order   []K // a ring; oldest is at next once it is full
	next    int
	changed chan struct{} // closed and replaced with each new thing
}

func newLately[K comparable, V any](most int) *lately[K, V] {
	return &lately[K, V]{most: most, values: make(map[K]V), changed: make(chan struct{})}
}

// put remembers v of k.
func (l *lately[K, V]) put(k K, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.values[k]; !known {
		if len(l.order) < l.most {
			l.order = append(l.order, k)
		} else {
			delete(l.values, l.order[l.next])
			l.order[l.next] = k
			l.next = (l.next + 1) % l.most
		}
	}
	l.values[k] = v
	close(l.changed)
	l.changed = make(chan struct{})
}

// get returns the entry for k.
func (l *lately[K, V]) get(k K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.values[k]
	return v, ok
}

// wait is get, once there is something, or false when ctx ends first.
func (l *lately[K, V]) wait(ctx context.Context, k K) (V, bool) {
	for {
		l.mu.Lock()
		v, ok := l.values[k]
		changed := l.changed
		l.mu.Unlock()
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
