package store

import (
	"math"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// maxRecent is how many records of one kind are remembered.
const maxRecent = 4096

// recent remembers the records of one kind that were read since a record of the kind was last changed: every event asks
// for the same few records, and decoding a record costs more than everything else about reading it. Its values are
// shared: do not change their lists.
type recent[K comparable, V any] struct {
	mu      sync.Mutex // guards the fields below
	changed int        // the number of the transaction that last changed a record of the kind
	known   map[K]V
}

// get returns the result of read for k in t, or the result from an earlier transaction that saw the same data.
func (r *recent[K, V]) get(t *bolt.Tx, k K, read func() (V, error)) (V, error) {
	asOf := t.ID()
	if t.Writable() { // it has the number of its own commit, which no reader can see yet
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

// newest returns the remembered record of k, which equals that of the newest commit.
func (r *recent[K, V]) newest(k K) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok = r.known[k]
	return v, ok
}

// forget drops all remembered records, because the transaction tx changes one. Transactions older than tx find nothing
// here from now on, whether or not tx is committed.
func (r *recent[K, V]) forget(tx int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.known = tx, nil
}

// recents holds the kinds that are remembered.
type recents struct {
	instances     recent[relay.InstanceID, Instance]
	conversations recent[conversationOf, []Conversation] // at most one
	chats         recent[Move, relay.ChatID]             // by platform and former id
	bindings      recent[Person, []Binding]
	covering      recent[relay.Place, []Grant]
}

// forget drops the remembered records that depend on a bucket which the transaction tx changes.
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

// noRecents returns recents that remember nothing, for a caller who has the file alone.
func noRecents() *recents {
	rs := &recents{}
	for _, b := range []string{BucketInstances, bucketConversations, BucketBindings, BucketGrants, BucketMoves} {
		rs.forget(b, math.MaxInt)
	}
	return rs
}
