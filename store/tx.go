package store

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// tx is a write transaction as the ops of one batch see it: a boltfile.Batch. It reads through the
// transaction of bbolt's, and changes the file through put, putSealed, del and next alone.
type tx struct {
	*bolt.Tx
	file *boltfile.Tx
	db   *DB // nil when nobody uses the database yet
	// writes counts the changes so far: the writer learns from it which op has changed something.
	writes int
	// lanes are the lane states touched so far. They are written once, before the commit,
	// however many entries a batch moves.
	lanes       map[relay.InstanceID]*lane
	marks       map[mark]uint32   // made so far, with their days; stored before the commit
	cursors     map[string][]byte // moved so far, by their key; stored, before the commit, if anything is
	waiting     map[string][]byte // those that were moved before and are not on disk; not to be changed
	took        bool              // the cursors were stored, or there are none
	died        []DeadReason      // of the dead letters made
	deadDropped uint64            // dead letters dropped to make room
	row         *AuditEntry       // what the op that runs is to leave in the audit list; nil for none
	noted       func()            // what to do about sent messages once the transaction is stored
}

// begin is boltfile's Format.Begin.
func (db *DB) begin(t *boltfile.Tx) boltfile.Batch {
	return &tx{Tx: t.Tx, file: t, db: db, waiting: db.cursors.waiting, noted: func() {}}
}

// edit is a transaction of somebody who has the file for himself.
func edit(x *bolt.Tx) *tx { return &tx{Tx: x, file: boltfile.Edit(x)} }

// Writes counts the changes so far.
func (t *tx) Writes() int { return t.writes }

// Settle stores the cursors and the notes of sent messages that ride along, and the lanes that were touched.
func (t *tx) Settle(spare bool) (err error) {
	t.took = spare && (t.writes > 0 || t.db.cursors.due)
	if t.took {
		if err := t.takeCursors(); err != nil {
			return err
		}
		if t.noted, err = t.db.sent.ride(t); err != nil {
			return err
		}
	}
	return t.flush()
}

// Done notes what became of the transaction.
func (t *tx) Done(stored bool) {
	t.db.cursors.after(t.took, t.cursors, t.db.remind)
	if !stored {
		return
	}
	t.noted()
	t.db.deadDropped.Add(t.deadDropped)
	for _, why := range t.died {
		t.db.died[slices.Index(deadReasons[:], why)].Add(1)
	}
}

// put stores v under k as JSON in an envelope.
func (t *tx) put(b bucket, k []byte, v any) error {
	payload, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode for bucket %s: %w", b, err)
	}
	return t.putSealed(b, k, seal(k, payload))
}

// putSealed stores an envelope.
func (t *tx) putSealed(b bucket, k, value []byte) error {
	t.changes(b)
	if b == bucketEntries || b == bucketAudit || b == bucketSeen { // written in key order
		return t.file.Append(string(b), k, value)
	}
	return t.file.Put(string(b), k, value)
}

// putChanged is put, unless the record stands there already word for word.
func (t *tx) putChanged(b bucket, k []byte, v any) error {
	payload, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode for bucket %s: %w", b, err)
	}
	value := seal(k, payload)
	if bytes.Equal(t.Bucket([]byte(b)).Get(k), value) {
		return nil
	}
	return t.putSealed(b, k, value)
}

func (t *tx) del(b bucket, k []byte) error {
	t.changes(b)
	return t.file.Delete(string(b), k)
}

// changes notes a change in b.
func (t *tx) changes(b bucket) {
	t.writes++
	if b == bucketInstances && t.db != nil {
		t.db.instances.forget(t.ID())
	}
}

// load reads the record under k. A damaged one is an error that names it.
func load[T any](t *bolt.Tx, b bucket, k []byte) (v T, ok bool, err error) {
	value := t.Bucket([]byte(b)).Get(k)
	if value == nil {
		return v, false, nil
	}
	if v, err = decode[T](k, value); err != nil {
		return v, false, damaged(b, k, err)
	}
	return v, true, nil
}

// must is load for a record that has to be there: ErrNotFound, with what in front, when it is not.
func must[T any](t *bolt.Tx, b bucket, k []byte, what string) (T, error) {
	v, ok, err := load[T](t, b, k)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return v, err
}

// has reports whether there is something under k.
func has(t *bolt.Tx, b bucket, k []byte) bool {
	found, _ := t.Bucket([]byte(b)).Cursor().Seek(k)
	return bytes.Equal(found, k)
}

// list decodes every record whose key begins with pre, in key order. An empty pre means all.
func list[T any](t *bolt.Tx, b bucket, pre []byte) ([]T, error) {
	var out []T
	for k, value := range under(t, b, pre) {
		v, err := decode[T](k, value)
		if err != nil {
			return nil, damaged(b, k, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// readable is list over all of b without the damaged records, for what must work though one is.
func readable[T any](t *bolt.Tx, b bucket) (out []T) {
	for k, value := range under(t, b, nil) {
		if v, err := decode[T](k, value); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// under ranges over what begins with pre. Keys and values die with the transaction, and the
// bucket must not be changed meanwhile.
func under(t *bolt.Tx, b bucket, pre []byte) func(yield func(k, v []byte) bool) {
	return underFrom(t, b, pre, "")
}

// underFrom is under for the keys that go on with from, or with something greater.
func underFrom(t *bolt.Tx, b bucket, pre []byte, from string) func(yield func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		c := t.Bucket([]byte(b)).Cursor()
		for k, v := c.Seek(append(slices.Clip(pre), from...)); bytes.HasPrefix(k, pre) && k != nil; k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// dropWhere deletes the records of b that which picks, and returns how many. A damaged one is passed
// over: it gives nobody anything, because every reader refuses it, and it must not keep a
// revocation of somebody else from taking effect.
func dropWhere[T any](t *tx, b bucket, which func(T) bool) (n int, err error) {
	for _, k := range keysUnder(t.Tx, b, nil) {
		if v, ok, err := load[T](t.Tx, b, k); err != nil || !ok || !which(v) {
			continue
		}
		if err := t.del(b, k); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// keysUnder copies the keys that begin with pre, for loops that change the bucket.
func keysUnder(t *bolt.Tx, b bucket, pre []byte) [][]byte {
	var out [][]byte
	for k := range under(t, b, pre) {
		out = append(out, slices.Clone(k))
	}
	return out
}
