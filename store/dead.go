package store

import (
	"bytes"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Replay moves dead letters back to the end of the lane, under new ids and with no deaths on
// them; none given: all. It returns how many: in the order they died, as many as fit the lane's limits,
// for a letter must not push out what waits. ErrNotFound: one of the ids is no dead letter of i,
// or i was revoked; then nothing is moved.
func (ls *Lanes) Replay(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (n int, err error) {
	now := ls.db.now()
	err = ls.db.change(ctx, row, fmt.Sprintf("replay for %s", i), func(t *tx) error {
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
			ok, err := t.replay(i, l, k, ls.db.limits, now)
			if err != nil || !ok {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
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
	sort.Slice(keys, func(i, j int) bool { return bytes.Compare(keys[i], keys[j]) < 0 })
	return keys, nil
}

// replay moves the letter under k back; ok is false when it does not fit.
func (t *tx) replay(i relay.InstanceID, l *lane, k []byte, m Limits, now time.Time) (ok bool, err error) {
	_, e, frame, err := decodeDead(k, t.Bucket([]byte(bucketDead)).Get(k))
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
