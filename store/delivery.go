package store

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Lanes are the buffers of all instances: the entries that wait in them, and those that left them unacknowledged. Its
// methods may be called from any goroutine.
type Lanes struct{ db *DB }

// change is DB.change for i's lane: fn gets the lane, and " of " and i are appended to what.
func (ls *Lanes) change(ctx context.Context, row *audit.Entry, i relay.InstanceID, what string, fn func(*lane) error) error {
	return ls.db.change(ctx, row, what+" of "+string(i), func(t *tx) error {
		l, err := t.lane(i)
		if err != nil {
			return err
		}
		return fn(l)
	})
}

// Lane is the state of an instance's buffer.
type Lane struct {
	Epoch    uint64
	NextSeq  uint64
	Entries  int
	Bytes    int64
	Dead     int
	OldestAt time.Time // zero when empty
}

// State returns the state of i's buffer; the zero Lane when it was never used.
func (ls *Lanes) State(ctx context.Context, i relay.InstanceID) (Lane, error) {
	return table.Get(ctx, ls.db.records, fmt.Sprintf("lane of %s", i), func(t *bolt.Tx) (out Lane, err error) {
		l, ok, err := table.Load[laneRecord](t, bucketLanes, table.Key(i))
		if err != nil || !ok {
			return out, err
		}
		out = Lane{Epoch: l.Epoch, NextSeq: l.Last + 1, Entries: l.Entries, Bytes: l.Bytes, Dead: l.Dead}
		_, k, v := ls.db.order.see(t, i, 0)
		if e, _, err := decodeEntry(k, v); err == nil { // if it is damaged, Next will set it aside
			out.OldestAt = e.At
		}
		return out, nil
	})
}

// Limits returns how much fits into each lane.
func (ls *Lanes) Limits() Limits { return ls.db.limits }

// Next returns the oldest entry of i after the given sequence number (0: the oldest of all); ok is false if there is
// none. It returns a copy; no transaction outlives the call. It moves a damaged entry to the quarantine, and returns
// the next sound entry.
func (ls *Lanes) Next(ctx context.Context, i relay.InstanceID, after uint64) (Entry, bool, error) {
	for {
		if _, _, there := ls.db.order.next(i, after); !there { // the usual case: the file need not be read
			return Entry{}, false, ctx.Err()
		}
		var broken []byte // key of a damaged entry
		e, err := table.Get(ctx, ls.db.records, "next delivery of "+string(i), func(t *bolt.Tx) (e Entry, err error) {
			epoch, k, v := ls.db.order.see(t, i, after)
			if k == nil {
				return e, nil
			}
			if e, err = readEntry(epoch, k, v, ls.db.run); err != nil {
				broken = k
			}
			return e, nil
		})
		if err != nil || broken == nil {
			return e, !e.Buffer.IsZero(), err
		}
		if err := ls.setAside(ctx, i, broken); err != nil {
			return Entry{}, false, err
		}
	}
}

// Waits reports whether an entry is in i's lane.
func (ls *Lanes) Waits(ctx context.Context, i relay.InstanceID, b relay.BufferID) (bool, error) {
	return table.Get(ctx, ls.db.records, "delivery "+b.String(), func(t *bolt.Tx) (bool, error) {
		if b.IsZero() {
			return false, nil
		}
		_, k, _ := ls.db.order.see(t, i, b.Seq-1)
		// By the number alone: a database gives no number twice, and a restore changes only the epochs.
		return k != nil && table.Number(k) == b.Seq, nil
	})
}

// setAside moves the entry under k to the quarantine, if it is there and damaged.
func (ls *Lanes) setAside(ctx context.Context, i relay.InstanceID, k []byte) error {
	now := ls.db.now()
	var moved bool
	err := ls.change(ctx, nil, i, "set aside a damaged delivery", func(l *lane) error {
		moved = false
		v := l.t.Bucket([]byte(bucketEntries)).Get(k)
		if v == nil {
			return nil
		}
		if _, _, err := decodeEntry(k, v); err != nil {
			moved = true
			return l.setAside(k, v, err, now)
		}
		return nil
	})
	if err == nil && moved {
		ls.db.log.Error("a damaged delivery was moved to the quarantine", "instance", i, "seq", table.Number(k))
	}
	return err
}

// Drop deletes ids from the lane or from the dead letters, to which they may have been moved while in flight; without
// ids it deletes all dead letters, and nothing in the lane. It returns how many it deleted. ErrNotFound: one of the ids
// is in neither; then nothing is deleted.
func (ls *Lanes) Drop(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (n int, err error) {
	now := ls.db.now()
	err = ls.change(ctx, row, i, fmt.Sprintf("drop %v", ids), func(l *lane) error {
		n = 0
		if len(ids) == 0 {
			for _, k := range table.KeysUnder(l.t.Tx, bucketDead, table.Prefix(i)) {
				if err := l.dropDead(k); err != nil {
					return err
				}
				n++
			}
		}
		for _, id := range ids {
			there, err := l.drop(id)
			if err == nil && !there {
				err = fmt.Errorf("%s: %w", id, ErrNotFound)
			}
			if err != nil {
				return err
			}
			l.t.history.Died(now, i, id.Seq, history.Discarded)
			n++
		}
		return nil
	})
	return n, err
}

// Ack deletes acknowledged entries, also from the dead letters if they were moved there while in flight. An id that is
// in neither is no error.
func (ls *Lanes) Ack(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) error {
	files, now := 0, ls.db.now()
	err := ls.change(ctx, nil, i, "drop deliveries", func(l *lane) error {
		before := l.t.released
		for _, b := range bs {
			there, err := l.take(b)
			if err != nil {
				return err
			}
			if there {
				l.t.history.Taken(now, i, b.Seq)
			}
		}
		files = l.t.released - before
		return nil
	})
	if err == nil && files > 0 {
		ls.db.Media.Took(i, files)
	}
	return err
}

// Bury moves an entry from the lane to the dead letters. ErrNotFound: the entry was not in the lane.
func (ls *Lanes) Bury(ctx context.Context, i relay.InstanceID, b relay.BufferID, why DeadReason) error {
	now := ls.db.now()
	return ls.change(ctx, nil, i, fmt.Sprintf("bury %s", b), func(l *lane) error {
		k, v := l.find(b)
		if v == nil {
			return ErrNotFound
		}
		return l.bury(k, v, why, now)
	})
}

// Died notes that a socket died with the entries in flight. If there was only one entry, and Limits.MaxDeaths sockets
// have now died with it, it becomes a dead letter, and buried is true; of several entries nobody knows which one caused
// the death. ErrNotFound: none of the entries was in the lane.
func (ls *Lanes) Died(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) (buried bool, err error) {
	now := ls.db.now()
	err = ls.change(ctx, nil, i, fmt.Sprintf("deaths of %v", bs), func(l *lane) error {
		buried = false
		found := false
		for _, b := range bs {
			k, v := l.find(b)
			if v == nil {
				continue
			}
			found = true
			v, enough, err := l.countDeath(k, v, ls.db.limits.MaxDeaths)
			if err != nil {
				return err
			}
			if enough && len(bs) == 1 {
				buried = true
				return l.bury(k, v, DeadDeaths, now)
			}
		}
		if !found {
			return ErrNotFound
		}
		return nil
	})
	return buried && err == nil, err
}

// EntryFilter picks entries of an instance.
type EntryFilter struct {
	Dead  bool // its dead letters, in the order they died; otherwise the entries in the lane, oldest first
	Limit int  // how many entries are picked at most; 0: all
}

// Entries lists the entries that f picks. Damaged entries are left out; Next moves those of the lane to the quarantine.
func (ls *Lanes) Entries(ctx context.Context, i relay.InstanceID, f EntryFilter) ([]Entry, error) {
	return table.Get(ctx, ls.db.records, fmt.Sprintf("entries of %s", i), func(t *bolt.Tx) (out []Entry, err error) {
		if !f.Dead {
			epoch, k, v := ls.db.order.see(t, i, 0)
			for k != nil && (f.Limit == 0 || len(out) < f.Limit) {
				if e, err := readEntry(epoch, k, v, ls.db.run); err == nil {
					out = append(out, e)
				}
				_, k, v = ls.db.order.see(t, i, table.Number(k))
			}
			return out, nil
		}
		for k, v := range table.Under(t, bucketDead, table.Prefix(i)) {
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
			if e, err := readDead(k, v, ls.db.run); err == nil {
				out = append(out, e)
			}
		}
		return out, nil
	})
}
