package store

import (
	"math"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// maxRecent is how much of one kind is remembered.
const maxRecent = 4096

// recent is what was read of one kind since any of it was changed: every event asks for the same few records, and
// decoding one costs more than all else about it. What it gives out is shared: nobody changes its lists.
type recent[K comparable, V any] struct {
	mu      sync.Mutex // guards the fields below
	changed int        // the transaction that changed one last
	known   map[K]V
}

// get is what read says of k in t, or said in a transaction that saw the same.
func (r *recent[K, V]) get(t *bolt.Tx, k K, read func() (V, error)) (V, error) {
	asOf := t.ID()
	if t.Writable() { // what it changes itself is nobody else's yet
		asOf--
	}
	r.mu.Lock()
	v, ok := r.known[k]
	ok = ok && asOf >= r.changed
	r.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if asOf >= r.changed {
		if r.known == nil || len(r.known) >= maxRecent {
			r.known = make(map[K]V)
		}
		r.known[k] = v
	}
	return v, nil
}

// newest is what is remembered of k: the newest commit has it so.
func (r *recent[K, V]) newest(k K) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok = r.known[k]
	return v, ok
}

// forget drops all, for the transaction changes one. Older ones find nothing from now on, whether or not it is
// committed.
func (r *recent[K, V]) forget(tx int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.known = tx, nil
}

// recents are the kinds of which something is remembered.
type recents struct {
	instances     recent[relay.InstanceID, Instance]
	conversations recent[conversationOf, []Conversation] // at most one
	chats         recent[Move, relay.ChatID]             // by platform and former id
	bindings      recent[Person, []Binding]
	covering      recent[relay.Place, []Grant]
}

// forget drops what follows from a bucket that the transaction changes.
func (rs *recents) forget(bucket string, tx int) {
	switch bucket {
	case BucketInstances:
		rs.instances.forget(tx)
	case bucketConversations:
		rs.conversations.forget(tx)
	case BucketBindings:
		rs.bindings.forget(tx)
	case BucketGrants:
		rs.covering.forget(tx)
	case BucketMoves:
		rs.chats.forget(tx)
		rs.covering.forget(tx)
	}
}

// noRecents remember nothing: for somebody who has the file to themselves.
func noRecents() *recents {
	rs := &recents{}
	for _, b := range []string{BucketInstances, bucketConversations, BucketBindings, BucketGrants, BucketMoves} {
		rs.forget(b, math.MaxInt)
	}
	return rs
}
