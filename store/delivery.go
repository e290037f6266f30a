package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// NextDelivery is the oldest entry of i after the given sequence number (0: the oldest of all);
// ok is false when there is none. It returns a copy; no transaction outlives the call. An entry
// that is damaged is moved to the quarantine, and the one after it is returned.
func (db *DB) NextDelivery(ctx context.Context, i relay.InstanceID, after uint64) (Entry, bool, error) {
	for {
		var e Entry
		var found bool
		var broken []byte // key of a damaged entry
		err := db.read(ctx, func(t *bolt.Tx) error {
			l, _, err := table.Load[lane](t, bucketLanes, table.Key(i))
			if err != nil || l.Last <= after {
				return err
			}
			k, v := t.Bucket([]byte(bucketEntries)).Cursor().Seek(entryKey(i, after+1))
			if !bytes.HasPrefix(k, table.Prefix(i)) {
				return nil
			}
			h, frame, err := decodeEntry(k, v)
			if err != nil {
				broken = bytes.Clone(k)
				return nil
			}
			e, found = h.entry(relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}, len(v), frame), true
			return nil
		})
		if err == nil && broken != nil {
			if err = db.setAside(ctx, i, broken); err == nil {
				continue
			}
		}
		if err != nil {
			return Entry{}, false, fmt.Errorf("next delivery of %s: %w", i, err)
		}
		return e, found, nil
	}
}

// setAside moves the entry under k to the quarantine, if it is there and damaged.
func (db *DB) setAside(ctx context.Context, i relay.InstanceID, k []byte) error {
	now := db.now()
	var moved bool
	err := db.write(ctx, nil, func(t *tx) error {
		moved = false
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		v := t.Bucket([]byte(bucketEntries)).Get(k)
		if v == nil {
			return nil
		}
		if _, _, err := decodeEntry(k, v); err != nil {
			moved = true
			return t.setAside(i, l, k, v, err, now)
		}
		return nil
	})
	if err == nil && moved {
		db.log.Error("a damaged delivery was moved to the quarantine", "instance", i, "seq", table.Number(k))
	}
	return err
}

// DropDelivery deletes an acknowledged entry, also from the dead letters if it was moved there
// while in flight. One that is nowhere is nil.
func (db *DB) DropDelivery(ctx context.Context, i relay.InstanceID, b relay.BufferID) error {
	err := db.write(ctx, nil, func(t *tx) error {
		_, err := t.drop(i, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop %s of %s: %w", b, i, err)
	}
	return nil
}

// drop deletes an entry from the lane or the dead letters and reports whether it was there.
func (t *tx) drop(i relay.InstanceID, b relay.BufferID) (bool, error) {
	l, err := t.lane(i)
	if err != nil {
		return false, err
	}
	if k, v := t.find(i, l, b); v != nil {
		return true, t.remove(i, l, k, v)
	}
	if k := t.findDead(i, b); k != nil {
		return true, t.dropDead(i, l, k)
	}
	return false, nil
}

// RecordDeath counts a socket that died with the entry in flight. At Limits.MaxDeaths the entry
// moves to the dead letters and dead is true. ErrNotFound: it is not in the lane any more.
func (db *DB) RecordDeath(ctx context.Context, i relay.InstanceID, b relay.BufferID) (dead bool, err error) {
	now := db.now()
	err = db.write(ctx, nil, func(t *tx) error {
		dead = false
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		k, v := t.find(i, l, b)
		if v == nil {
			return ErrNotFound
		}
		h, frame, err := decodeEntry(k, v)
		if err != nil {
			dead = true
			return t.setAside(i, l, k, v, err, now)
		}
		h.Deaths++
		payload, err := encodeWith(h, frame)
		if err != nil {
			return err
		}
		value := boltfile.Seal(k, payload)
		l.Bytes += int64(len(value) - len(v))
		t.touch(i, l)
		if err := t.AppendSealed(bucketEntries, k, value); err != nil {
			return err
		}
		if h.Deaths < db.limits.MaxDeaths {
			return nil
		}
		dead = true
		return t.bury(i, l, k, value, DeadDeaths, now)
	})
	if err != nil {
		return false, fmt.Errorf("record death of %s of %s: %w", b, i, err)
	}
	return dead, nil
}

// Bury moves an entry from the lane to the dead letters. One that is not in the lane is nil.
func (db *DB) Bury(ctx context.Context, i relay.InstanceID, b relay.BufferID, why DeadReason) error {
	now := db.now()
	return db.change(ctx, nil, fmt.Sprintf("bury %s of %s", b, i), func(t *tx) error {
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		k, v := t.find(i, l, b)
		if v == nil {
			return nil
		}
		return t.bury(i, l, k, v, why, now)
	})
}

// Entries lists what is in the buffer, oldest first, at most limit of them (0: all). Damaged
// ones are left out; NextDelivery sets them aside.
func (db *DB) Entries(ctx context.Context, i relay.InstanceID, limit int) ([]Entry, error) {
	var out []Entry
	err := db.read(ctx, func(t *bolt.Tx) error {
		l, _, err := table.Load[lane](t, bucketLanes, table.Key(i))
		if err != nil {
			return err
		}
		for k, v := range table.Under(t, bucketEntries, table.Prefix(i)) {
			if limit > 0 && len(out) == limit {
				break
			}
			if h, frame, err := decodeEntry(k, v); err == nil {
				out = append(out, h.entry(relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}, len(v), frame))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("entries of %s: %w", i, err)
	}
	return out, nil
}
