package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Replayed counts the dead letters that Replay moved back, and those that it could not move.
type Replayed struct {
	Moved    int
	Oversize int // too large for a frame: they stay
}

// Replay moves the dead letters with these ids, or all if none is given, back to the end of the lane, under new ids and
// with no deaths counted. They go in the order in which they died, and only as many as fit the lane's limits: a letter
// must not push out waiting entries. A letter that is too large for a frame stays, since it would only die again.
// ErrNotFound: one of the ids is not a dead letter of i, or i was revoked; then nothing is moved.
func (ls *Lanes) Replay(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (n Replayed, err error) {
	now := ls.db.now()
	err = ls.db.change(ctx, row, fmt.Sprintf("replay for %s", i), func(t *tx) error {
		n = Replayed{}
		l, err := t.live(i)
		if err != nil {
			return err
		}
		keys, err := l.deadKeys(ids)
		if err != nil {
			return err
		}
		for _, k := range keys {
			ok, err := l.replay(k, ls.db.limits, now)
			switch {
			case errors.Is(err, errOversize):
				n.Oversize++
			case err != nil || !ok:
				return err
			default:
				n.Moved++
			}
		}
		return nil
	})
	return n, err
}

// deadKeys returns the keys of the letters with these ids, or of all letters if there are no ids, in the order in which
// they died.
func (l *lane) deadKeys(ids []relay.BufferID) ([][]byte, error) {
	all := table.KeysUnder(l.t.Tx, bucketDead, table.Prefix(l.i))
	if len(ids) == 0 {
		return all, nil
	}
	byID := make(map[relay.BufferID][]byte, len(all))
	for _, k := range all {
		if id, ok := deadID(k); ok {
			byID[id] = k
		}
	}
	keys := make([][]byte, 0, len(ids))
	for _, id := range ids {
		k, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
		}
		delete(byID, id) // so an id that is given twice is not found
		keys = append(keys, k)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, nil
}

// errOversize is the error of replay for a letter that no frame can hold.
var errOversize = errors.New("too large for a frame")

// replay moves the letter under k back to its lane; ok is false if the lane has no room for it.
func (l *lane) replay(k []byte, m Limits, now time.Time) (ok bool, err error) {
	d, e, frame, err := decodeDead(k, l.t.Bucket([]byte(bucketDead)).Get(k))
	switch {
	case err != nil:
		return false, boltfile.DamagedRecord(bucketDead, k, err)
	case d.Reason == DeadOversize:
		return false, errOversize
	}
	e.At, e.Deaths = now, 0 // as if accepted now: otherwise it would die of its age again
	payload, err := encodeEntry(e, frame)
	if err != nil {
		return false, err
	}
	if l.Entries >= m.MaxEntries || l.Bytes+boltfile.EnvelopeSize+int64(len(payload)) > m.MaxBytes {
		return false, nil
	}
	was, _ := deadID(k)
	if err := l.dropDead(k); err != nil {
		return false, err
	}
	id, err := l.append(payload)
	l.t.history.Replayed(now, l.i, was.Seq, id.Seq)
	if err == nil && e.About.Bot.IsProgram() {
		err = callers.Requeued(l.t.Writer, e.About.User, e.About.ID, id)
	}
	return true, err
}

// Reasons returns how many dead letters of i there are for each reason. It leaves out damaged ones.
func (ls *Lanes) Reasons(ctx context.Context, i relay.InstanceID) (map[DeadReason]int, error) {
	return table.Get(ctx, ls.db.records, fmt.Sprintf("dead letters of %s", i), func(t *bolt.Tx) (map[DeadReason]int, error) {
		out := make(map[DeadReason]int)
		for k, v := range table.Under(t, bucketDead, table.Prefix(i)) {
			if d, _, _, err := decodeDead(k, v); err == nil {
				out[d.Reason]++
			}
		}
		return out, nil
	})
}

// bury moves the entry under k, which is in the lane, to the dead letters, or to the quarantine if it does not decode.
func (l *lane) bury(k, value []byte, why DeadReason, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return l.setAside(k, value, err, now)
	}
	// Copies: the memory under value moves when the bucket changes.
	k, payload = bytes.Clone(k), bytes.Clone(payload)
	d := deadHead{DiedAt: now, Reason: why, Size: len(value)}
	if err := l.remove(k, value); err != nil {
		return err
	}
	l.t.history.Died(now, l.i, id.Seq, string(why))
	return l.addDead(id, d, payload)
}

// buryWhere buries the entries that which selects; a nil which selects all. With a which, damaged entries stay: Next
// handles them.
func (l *lane) buryWhere(why DeadReason, now time.Time, which func(About) bool) error {
	for _, k := range l.keys() {
		value := l.t.Bucket([]byte(bucketEntries)).Get(k)
		if which != nil {
			if e, _, err := decodeEntry(k, value); err != nil || !which(e.About) {
				continue
			}
		}
		if err := l.bury(k, value, why, now); err != nil {
			return err
		}
	}
	return nil
}

// setAside moves a damaged entry to the quarantine, which keeps its bytes.
func (l *lane) setAside(k, value []byte, why error, now time.Time) error {
	id := relay.BufferID{Epoch: l.Epoch, Seq: table.Number(k)}
	q := Quarantined{
		At: now, Err: fmt.Sprintf("entry %s of %s is damaged: %v", id, l.i, why), Raw: bytes.Clone(value),
	}
	if err := l.remove(bytes.Clone(k), value); err != nil {
		return err
	}
	l.t.history.Died(now, l.i, id.Seq, history.Damaged)
	return quarantine(l.t.Writer, q)
}

// addDead adds a dead letter of an encoded entry, and drops the oldest ones past the limit.
func (l *lane) addDead(id relay.BufferID, d deadHead, buried []byte) error {
	l.Dead++
	l.Deaths++
	l.touch()
	l.t.died = append(l.t.died, d.Reason)
	payload, err := encodeDead(d, buried)
	if err != nil {
		return fmt.Errorf("encode for bucket %s: %w", bucketDead, err)
	}
	k := deadKey(l.i, l.Deaths, id)
	if err := l.t.PutSealed(bucketDead, k, boltfile.Seal(k, payload)); err != nil {
		return err
	}
	for l.Dead > maxDead {
		var first []byte
		for k := range table.Under(l.t.Tx, bucketDead, table.Prefix(l.i)) {
			first = bytes.Clone(k)
			break
		}
		if first == nil {
			return fmt.Errorf("%w: %s counts %d dead letters that are not there", ErrDamaged, l.i, l.Dead)
		}
		if err := l.dropDead(first); err != nil {
			return err
		}
		l.t.deadDropped++
	}
	return nil
}

// dropDead deletes the dead letter under k.
func (l *lane) dropDead(k []byte) error {
	l.Dead--
	l.touch()
	return l.t.Delete(bucketDead, k)
}

// findDead returns the key of the dead letter with this id; nil if there is none.
func (l *lane) findDead(b relay.BufferID) []byte {
	for k := range table.Under(l.t.Tx, bucketDead, table.Prefix(l.i)) {
		if id, ok := deadID(k); ok && id == b {
			return bytes.Clone(k)
		}
	}
	return nil
}
