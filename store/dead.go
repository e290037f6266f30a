package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// DeadLetters lists i's dead letters, in the order they died. Damaged ones are left out.
func (db *DB) DeadLetters(ctx context.Context, i relay.InstanceID) ([]DeadLetter, error) {
	return get(ctx, db, fmt.Sprintf("dead letters of %s", i), func(t *bolt.Tx) (out []DeadLetter, err error) {
		for k, v := range table.Under(t, bucketDead, table.Prefix(i)) {
			d, e, frame, err := decodeDead(k, v)
			id, ok := tailID(k)
			if err != nil || !ok {
				continue
			}
			out = append(out, DeadLetter{Entry: e.entry(id, d.Size, frame), Reason: d.Reason, DiedAt: d.DiedAt})
		}
		return out, nil
	})
}

// Replay moves dead letters back to the end of the lane, under new ids and with no deaths on
// them; none given: all. It returns how many: in the order they died, as many as fit the lane's limits,
// for a letter must not push out what waits. ErrNotFound: one of the ids is no dead letter of i,
// or i was revoked; then nothing is moved.
func (db *DB) Replay(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (int, error) {
	now := db.now()
	n := 0
	err := db.write(ctx, row, func(t *tx) error {
		n = 0
		l, err := t.live(i)
		if err != nil {
			return err
		}
		keys, err := t.deadKeys(i, ids)
		if err != nil {
			return err
		}
		for _, k := range keys {
			ok, err := t.replay(i, l, k, db.limits, now)
			if err != nil || !ok {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("replay for %s: %w", i, err)
	}
	return n, nil
}

// deadKeys are the keys of the letters with these ids, of all when there are none: in the order they
// died, whatever the order of ids.
func (t *tx) deadKeys(i relay.InstanceID, ids []relay.BufferID) ([][]byte, error) {
	all := table.KeysUnder(t.Tx, bucketDead, table.Prefix(i))
	if len(ids) == 0 {
		return all, nil
	}
	byID := make(map[relay.BufferID][]byte, len(all))
	for _, k := range all {
		if id, ok := tailID(k); ok {
			byID[id] = k
		}
	}
	keys := make([][]byte, 0, len(ids))
	for _, id := range ids {
		k, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
		}
		delete(byID, id) // named twice: the second finds nothing
		keys = append(keys, k)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, nil
}

// replay moves the letter under k back; ok is false when it does not fit.
func (t *tx) replay(i relay.InstanceID, l *lane, k []byte, m Limits, now time.Time) (ok bool, err error) {
	value := t.Bucket([]byte(bucketDead)).Get(k)
	if value == nil {
		return true, nil
	}
	_, e, frame, err := decodeDead(k, value)
	if err != nil {
		return false, boltfile.DamagedRecord(bucketDead, k, err)
	}
	e.At, e.Deaths = now, 0 // as if accepted now, or its age would bring it straight back
	payload, err := encodeWith(e, frame)
	if err != nil {
		return false, err
	}
	if l.Entries >= m.MaxEntries || l.Bytes+boltfile.EnvelopeSize+int64(len(payload)) > m.MaxBytes {
		return false, nil
	}
	if err := t.dropDead(i, l, k); err != nil {
		return false, err
	}
	_, err = t.append(i, l, payload)
	return true, err
}

// DropBuffered deletes ids from the lane or the dead letters; none given: all dead letters, and
// nothing of the lane. It returns how many. ErrNotFound: one of the ids is in neither; then
// nothing is deleted.
func (db *DB) DropBuffered(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (int, error) {
	n := 0
	err := db.write(ctx, row, func(t *tx) error {
		n = 0
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			keys := table.KeysUnder(t.Tx, bucketDead, table.Prefix(i))
			for _, k := range keys {
				if err := t.dropDead(i, l, k); err != nil {
					return err
				}
			}
			n = len(keys)
			return nil
		}
		for _, id := range ids {
			there, err := t.drop(i, id)
			if err != nil {
				return err
			}
			if !there {
				return fmt.Errorf("%s: %w", id, ErrNotFound)
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("drop buffered of %s: %w", i, err)
	}
	return n, nil
}
