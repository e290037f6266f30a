package table

import (
	"maps"
	"sync"
)

// maxNotes is how many notes may wait.
const maxNotes = 5000

// Notes are changes, by key, that are not worth a commit: they wait in memory until a commit of anybody takes them
// along, and a crash loses them. Its methods may be called from any goroutine. The zero value is ready.
type Notes[V comparable] struct {
	mu      sync.Mutex // guards the field below
	waiting map[string]V
}

// Set notes v for k.
func (n *Notes[V]) Set(k []byte, v V) { n.Change(k, func(V) V { return v }) }

// Change replaces the note that waits for k by the result of to. to gets the zero value if none waits.
func (n *Notes[V]) Change(k []byte, to func(V) V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil || len(n.waiting) >= maxNotes { // the disk must be full: the older notes are dropped
		n.waiting = make(map[string]V)
	}
	n.waiting[string(k)] = to(n.waiting[string(k)])
}

// Get returns the note that waits for k.
func (n *Notes[V]) Get(k []byte) (v V, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok = n.waiting[string(k)]
	return v, ok
}

// Ride hands the waiting notes to put, which adds them to a transaction that is about to be committed. The caller calls
// stored when the transaction is stored; stored drops the notes, except those that have changed since. If none wait,
// stored is nil, and put is not called.
func (n *Notes[V]) Ride(put func(notes map[string]V) error) (stored func(), err error) {
	n.mu.Lock()
	if len(n.waiting) == 0 {
		n.mu.Unlock()
		return nil, nil
	}
	taken := maps.Clone(n.waiting)
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		maps.DeleteFunc(n.waiting, func(k string, v V) bool {
			was, ok := taken[k]
			return ok && was == v
		})
	}, put(taken)
}
