package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// This file is for store/restore, which makes one database from others while no server has them open.

// Upgrade brings b to this version, and checks that all buckets are there.
func Upgrade(b *bolt.DB) error { return migrate(b, migrations()) }

// Held is a delivery that somebody has not got: an entry, a dead letter or something pending.
type Held struct {
	Instance relay.InstanceID
	About    About
	Dead     relay.BufferID // of a dead letter
}

// HeldIn lists the entries, the dead letters and the pending deliveries in the database. whole: all of them could be
// read. It returns an error for a database that is not ours or of a later version.
func HeldIn(b *bolt.DB) (all []Held, whole bool, err error) {
	v, err := version(b)
	if err == nil && v > 1+len(migrations()) {
		err = fmt.Errorf("%w; run that version", ErrNewer)
	}
	if err != nil {
		return nil, false, err
	}
	whole = true
	err = b.View(func(t *bolt.Tx) error {
		if v == 1+len(migrations()) { // an earlier version has other buckets
			if err := hasAll(t); err != nil { // because no checksum covers their names
				return err
			}
		}
		for _, name := range []string{bucketEntries, bucketLanes, bucketDead, bucketPending, BucketGateways, BucketBindings, BucketGrants} {
			if t.Bucket([]byte(name)) == nil {
				return fmt.Errorf("%w: bucket %s is missing", ErrDamaged, name)
			}
		}
		each := func(b string, read func(k, v []byte) (Held, error)) {
			for k, v := range table.Under(t, b, nil) {
				if h, err := read(k, v); err == nil && h.Instance != "" {
					all = append(all, h)
				} else {
					whole = false
				}
			}
		}
		each(bucketEntries, func(k, v []byte) (Held, error) {
			e, _, err := decodeEntry(k, v)
			i, _ := entryOwner(k)
			return Held{Instance: i, About: e.About}, err
		})
		each(bucketDead, func(k, v []byte) (Held, error) {
			_, e, _, err := decodeDead(k, v)
			id, _ := deadID(k)
			return Held{Instance: instanceOf(k, 24), About: e.About, Dead: id}, err
		})
		each(bucketPending, func(k, v []byte) (Held, error) {
			u, err := decodePending(k, v)
			if err != nil {
				return Held{}, err
			}
			return Held{Instance: u.Instance, About: AboutOf(*u.about())}, nil
		})
		return nil
	})
	return all, whole, err
}

// Edit is a write transaction of somebody who has the file to themselves.
type Edit struct{ *tx }

// NewEdit returns the transaction x of a caller who has the file to themselves.
func NewEdit(x *bolt.Tx) Edit { return Edit{&tx{Writer: table.Edit(x), recents: noRecents()}} }

// Move is MoveChat, as of m.At.
func (e Edit) Move(m Move) error { return moveChat(e.Writer, m) }

// DoubtAnswers marks the waiting answers of a restored backup as begun, because they may have been sent since the
// backup was made.
func (e Edit) DoubtAnswers() error {
	if e.Bucket([]byte(outbox.Bucket)) == nil {
		return nil // the file is older than that bucket
	}
	for _, r := range table.Readable[outbox.Record](e.Tx, outbox.Bucket) {
		if r.State() != outbox.Waiting || !r.Begun.IsZero() {
			continue
		}
		r.Begun = r.At
		if err := table.PutIndexed(e.Writer, r); err != nil {
			return err
		}
	}
	return nil
}

// RenewEpochs gives every lane a new epoch.
func (e Edit) RenewEpochs() error {
	for _, k := range table.KeysUnder(e.Tx, bucketLanes, nil) {
		l, err := table.Decode[laneRecord](k, e.Bucket([]byte(bucketLanes)).Get(k))
		if err != nil {
			return boltfile.DamagedRecord(bucketLanes, k, err)
		}
		if l.Epoch == 0 { // never used
			continue
		}
		l.Epoch = newEpoch()
		if err := e.Put(bucketLanes, k, l); err != nil {
			return err
		}
	}
	return nil
}

// Derive makes everything anew that follows from the records: running numbers, the index, lanes, counts and the users
// of files.
func (e Edit) Derive() error {
	for _, b := range []string{bucketQuarantine, audit.Rows, bucketPending, outbox.Bucket, callers.Replies, history.Older} {
		var last uint64
		for k := range table.Under(e.Tx, b, nil) {
			last = max(last, table.Number(k))
		}
		if err := e.Bucket([]byte(b)).SetSequence(last); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	return errors.Join(reindex(e.Writer), recountLanes(e.Writer), audit.Recount(e.Writer), recountFiles(e.Writer, e.clock()))
}

// DropMisplaced drops the records that belong to another bucket than the one they are in, and returns a line about
// each.
func (e Edit) DropMisplaced() (gone []string, err error) {
	for _, kind := range kinds {
		if kind.own == nil {
			continue
		}
		for _, k := range table.KeysUnder(e.Tx, kind.bucket, nil) {
			if kind.own(k, e.Bucket([]byte(kind.bucket)).Get(k)) {
				continue
			}
			gone = append(gone, fmt.Sprintf("bucket %s, record %q: it is another bucket's", kind.bucket, k))
			if err := e.Delete(kind.bucket, k); err != nil {
				return nil, err
			}
		}
	}
	return gone, nil
}

// DropStrays drops the records that belong to instances which do not exist, and returns the names of those instances.
func (e Edit) DropStrays(now time.Time) (gone []relay.InstanceID, err error) {
	names := make(map[relay.InstanceID]bool)
	for k := range table.Under(e.Tx, bucketLanes, nil) {
		names[relay.InstanceID(k)] = true
	}
	for _, c := range table.Readable[Conversation](e.Tx, bucketConversations) {
		names[c.Instance] = true
	}
	for _, u := range table.Readable[pendingRecord](e.Tx, bucketPending) {
		names[u.Instance] = true
	}
	for _, c := range table.Readable[capability.Record](e.Tx, capability.Bucket) {
		names[c.Instance] = true
	}
	for _, r := range table.Readable[outbox.Record](e.Tx, outbox.Bucket) {
		names[r.Instance] = true
	}
	for _, p := range table.Readable[prompt.Record](e.Tx, prompt.Bucket) {
		names[p.Instance] = true
	}
	delete(names, "") // a record without an instance may be another bucket's
	for i := range names {
		if table.Has(e.Tx, BucketInstances, table.Key(i)) {
			continue
		}
		gone = append(gone, i)
		err := errors.Join(
			table.DropWhere(e.Writer, bucketPending, func(u pendingRecord) bool { return u.Instance == i }),
			e.strip(i, now), e.flush(),
			table.DropUnder(e.Writer, bucketDead, table.Prefix(i)), e.Delete(bucketLanes, table.Key(i)))
		if err != nil {
			return nil, err
		}
		delete(e.lanes, i) // or the next flush would store its record again
	}
	return gone, nil
}
