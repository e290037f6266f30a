package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Lanes are the buffers of all instances: what waits in them, and what left them unacknowledged. All
// methods: any goroutine.
type Lanes struct{ db *DB }

// Limits are how much fits into each.
func (ls *Lanes) Limits() Limits { return ls.db.limits }

// Next is the oldest entry of i after the given sequence number (0: the oldest of all);
// ok is false when there is none. It returns a copy; no transaction outlives the call. An entry
// that is damaged is moved to the quarantine, and the one after it is returned.
func (ls *Lanes) Next(ctx context.Context, i relay.InstanceID, after uint64) (Entry, bool, error) {
	for {
		var e Entry
		var found bool
		var broken []byte // key of a damaged entry
		err := ls.db.read(ctx, func(t *bolt.Tx) error {
			l, _, err := table.Load[lane](t, bucketLanes, table.Key(i))
			if err != nil || l.Last <= after {
				return err
			}
			k, v := t.Bucket([]byte(entry.Bucket)).Cursor().Seek(entry.Key(i, after+1))
			if !bytes.HasPrefix(k, table.Prefix(i)) {
				return nil
			}
			if e, err = entry.Read(l.Epoch, k, v, ls.db.run); err != nil {
				broken = bytes.Clone(k)
				return nil
			}
			found = true
			return nil
		})
		if err == nil && broken != nil {
			if err = ls.setAside(ctx, i, broken); err == nil {
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
func (ls *Lanes) setAside(ctx context.Context, i relay.InstanceID, k []byte) error {
	now := ls.db.now()
	var moved bool
	err := ls.db.write(ctx, nil, func(t *tx) error {
		moved = false
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		v := t.Bucket([]byte(entry.Bucket)).Get(k)
		if v == nil {
			return nil
		}
		if _, _, err := entry.Decode(k, v); err != nil {
			moved = true
			return t.setAside(i, l, k, v, err, now)
		}
		return nil
	})
	if err == nil && moved {
		ls.db.log.Error("a damaged delivery was moved to the quarantine", "instance", i, "seq", table.Number(k))
	}
	return err
}

// Drop deletes ids from the lane or the dead letters, where those are that were moved there while in
// flight; none given: all dead letters, and nothing of the lane. It returns how many. ErrNotFound: one of the
// ids is in neither; then nothing is deleted.
func (ls *Lanes) Drop(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (n int, err error) {
	err = ls.db.change(ctx, row, fmt.Sprintf("drop %v of %s", ids, i), func(t *tx) error {
		n = 0
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			for _, k := range table.KeysUnder(t.Tx, entry.DeadBucket, table.Prefix(i)) {
				if err := t.dropDead(i, l, k); err != nil {
					return err
				}
				n++
			}
		}
		for _, id := range ids {
			there, err := t.drop(i, id)
			if err == nil && !there {
				err = fmt.Errorf("%s: %w", id, ErrNotFound)
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// Ack deletes acknowledged entries, also from the dead letters if they were moved there while in flight. One that
// is nowhere is nil.
func (ls *Lanes) Ack(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) error {
	files := 0
	err := ls.db.change(ctx, nil, fmt.Sprintf("drop %v of %s", bs, i), func(t *tx) error {
		before := t.released
		for _, b := range bs {
			if _, err := t.drop(i, b); err != nil {
				return err
			}
		}
		files = t.released - before
		return nil
	})
	if err == nil {
		ls.db.Media.took(i, files)
	}
	return err
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

// Bury moves an entry from the lane to the dead letters. ErrNotFound: it was not there.
func (ls *Lanes) Bury(ctx context.Context, i relay.InstanceID, b relay.BufferID, why DeadReason) error {
	now := ls.db.now()
	return ls.db.change(ctx, nil, fmt.Sprintf("bury %s of %s", b, i), func(t *tx) error {
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		k, v := t.find(i, l, b)
		if v == nil {
			return ErrNotFound
		}
		return t.bury(i, l, k, v, why, now)
	})
}

// Died notes that a socket died with the entries in flight. One that was alone becomes a dead letter when that makes
// Limits.MaxDeaths of them, and buried is true; of several nobody knows which it died of. ErrNotFound: none was in the
// lane.
func (ls *Lanes) Died(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) (buried bool, err error) {
	now := ls.db.now()
	err = ls.db.change(ctx, nil, fmt.Sprintf("deaths of %v of %s", bs, i), func(t *tx) error {
		buried = false
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		found := false
		for _, b := range bs {
			k, v := t.find(i, l, b)
			if v == nil {
				continue
			}
			found = true
			v, enough, err := t.countDeath(i, l, k, v, ls.db.limits.MaxDeaths)
			if err != nil {
				return err
			}
			if enough && len(bs) == 1 {
				buried = true
				return t.bury(i, l, k, v, DeadDeaths, now)
			}
		}
		if !found {
			return ErrNotFound
		}
		return nil
	})
	return buried && err == nil, err
}

// countDeath counts a death of the entry under k. It returns what is stored of it then, and whether it has died
// often enough. A damaged one has.
func (t *tx) countDeath(i relay.InstanceID, l *lane, k, v []byte, most int) (value []byte, enough bool, err error) {
	h, frame, err := entry.Decode(k, v)
	if err != nil {
		return v, true, nil
	}
	h.Deaths++
	payload, err := entry.Encode(h, frame)
	if err != nil {
		return nil, false, err
	}
	value = boltfile.Seal(k, payload)
	l.Bytes += int64(len(value) - len(v))
	t.touch(i, l)
	return value, h.Deaths >= most, t.AppendSealed(entry.Bucket, k, value)
}

// EntryFilter picks entries of an instance.
type EntryFilter struct {
	Dead  bool // its dead letters, in the order they died; otherwise what is in the lane, oldest first
	Limit int  // at most so many; 0: all
}

// Entries lists the entries that f picks. Damaged ones are left out; Next sets those of the lane aside.
func (ls *Lanes) Entries(ctx context.Context, i relay.InstanceID, f EntryFilter) ([]Entry, error) {
	return get(ctx, ls.db, fmt.Sprintf("entries of %s", i), func(t *bolt.Tx) (out []Entry, err error) {
		l, _, err := table.Load[lane](t, bucketLanes, table.Key(i))
		if err != nil {
			return nil, err
		}
		b := entry.Bucket
		if f.Dead {
			b = entry.DeadBucket
		}
		for k, v := range table.Under(t, b, table.Prefix(i)) {
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
			e, err := entry.Read(l.Epoch, k, v, ls.db.run)
			if f.Dead {
				e, err = entry.ReadDead(k, v, ls.db.run)
			}
			if err == nil {
				out = append(out, e)
			}
		}
		return out, nil
	})
}
