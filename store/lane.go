package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// lane is the stored state of an instance's buffer. The counts agree with what is in the
// buckets after every commit.
type lane struct {
	// Epoch is random, and new when the instance is enrolled again; zero until the first entry.
	Epoch uint64 `json:"epoch"`
	// Last is the sequence number given last. It only ever grows, across epochs too.
	Last    uint64 `json:"last"`
	Entries int    `json:"n,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"` // of the entries' stored records
	Dead    int    `json:"dead,omitempty"`
	Deaths  uint64 `json:"deaths,omitempty"` // running number of the newest dead letter
	// Closed: the instance was revoked; nothing is appended until it is enrolled again.
	Closed bool `json:"closed,omitempty"`
}

// lane is the state of i's lane, to be changed in place by someone who calls touch.
func (t *tx) lane(i relay.InstanceID) (*lane, error) {
	if l, ok := t.lanes[i]; ok {
		return l, nil
	}
	l, _, err := table.Load[lane](t.Tx, bucketLanes, table.Key(i))
	if err != nil {
		return nil, err
	}
	return &l, nil
}

// touch notes that l is to be written with the transaction.
func (t *tx) touch(i relay.InstanceID, l *lane) {
	if t.lanes == nil {
		t.lanes = make(map[relay.InstanceID]*lane)
	}
	t.lanes[i] = l
	t.Changes++
}

// flush writes the lane states touched and the marks made. Nothing may be changed after it.
func (t *tx) flush() error {
	for i, l := range t.lanes {
		if err := t.Put(bucketLanes, table.Key(i), l); err != nil {
			return err
		}
	}
	return seen.Store(t.Writer, t.marks)
}

// newEpoch draws an epoch. It is never zero, and its hexadecimal form begins with a letter.
func newEpoch() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if e := binary.BigEndian.Uint64(b[:]); e>>60 >= 0xa {
			return e
		}
	}
}

// next gives out the next buffer id of the lane.
func (l *lane) next() relay.BufferID {
	if l.Epoch == 0 {
		l.Epoch = newEpoch()
	}
	l.Last++
	return relay.BufferID{Epoch: l.Epoch, Seq: l.Last}
}

// append puts an encoded entry at the end of the lane.
func (t *tx) append(i relay.InstanceID, l *lane, payload []byte) (relay.BufferID, error) {
	id := l.next()
	l.Entries++
	l.Bytes += boltfile.EnvelopeSize + int64(len(payload))
	t.touch(i, l)
	k := entry.Key(i, id.Seq)
	value := boltfile.Seal(k, payload)
	return id, errors.Join(t.want(i, k, value), t.AppendSealed(entry.Bucket, k, value))
}

// remove deletes the entry under k, whose stored record is value.
func (t *tx) remove(i relay.InstanceID, l *lane, k, value []byte) error {
	l.Entries--
	l.Bytes -= int64(len(value))
	t.touch(i, l)
	return errors.Join(t.release(i, k, value), t.Delete(entry.Bucket, k))
}

// find is the stored record of an entry that is in the lane; nil when it is not.
func (t *tx) find(i relay.InstanceID, l *lane, b relay.BufferID) (k, value []byte) {
	if b.Epoch != l.Epoch {
		return nil, nil
	}
	k = entry.Key(i, b.Seq)
	return k, t.Bucket([]byte(entry.Bucket)).Get(k)
}

// trim moves the oldest entries to the dead letters until the lane is within its limits, and
// returns how many.
func (t *tx) trim(i relay.InstanceID, l *lane, m Limits, now time.Time) (moved int, err error) {
	for l.Entries > m.MaxEntries || l.Bytes > m.MaxBytes {
		k, value := t.oldest(entry.Bucket, i)
		if k == nil {
			return moved, fmt.Errorf("%w: the lane of %s counts %d entries that are not there", ErrDamaged, i, l.Entries)
		}
		if err := t.bury(i, l, k, value, DeadOverflow, now); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, nil
}

// oldest is the first of i's entries, or of its dead letters; nil when there is none.
func (t *tx) oldest(b string, i relay.InstanceID) (k, value []byte) {
	for k, v := range table.Under(t.Tx, b, table.Prefix(i)) {
		return k, v
	}
	return nil, nil
}

// State is the state of i's buffer; the zero Lane when it was never used.
func (ls *Lanes) State(ctx context.Context, i relay.InstanceID) (Lane, error) {
	return get(ctx, ls.db, fmt.Sprintf("lane of %s", i), func(t *bolt.Tx) (out Lane, err error) {
		l, ok, err := table.Load[lane](t, bucketLanes, table.Key(i))
		if err != nil || !ok {
			return out, err
		}
		out = Lane{Epoch: l.Epoch, NextSeq: l.Last + 1, Entries: l.Entries, Bytes: l.Bytes, Dead: l.Dead}
		for k, v := range table.Under(t, entry.Bucket, table.Prefix(i)) {
			if e, _, err := entry.Decode(k, v); err == nil { // a damaged one is NextDelivery's to handle
				out.OldestAt = e.At
				break
			}
		}
		return out, nil
	})
}
