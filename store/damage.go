package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// What is found damaged when the file is opened is named in the log, and then set aside, raw, in the
// quarantine, made anew (reinstate.go), or left where it is. Set aside is what would otherwise block
// others: an entry those behind it, a binding or a grant everybody who writes to that bot. Without
// its binding or grant a person or a chat reaches nobody, until the operator has bound or claimed
// it again. Made anew is what says who is who (tenants, instances, gateways), as far as other
// records know; where nothing but the key is damaged, the record itself says it, and is put back
// (reinstate.go). Left, and refused whenever it is read, is the rest, and the vault's.

// isSetAside reports whether damaged records of b are moved to the quarantine.
func isSetAside(b bucket) bool {
	switch b {
	case bucketEntries, bucketDead, bucketLanes, bucketCursors, bucketConversations, bucketCodes,
		bucketTokens, bucketIdentity, bucketAudit, bucketAuditCounts, bucketCommands, bucketQuarantine, bucketBindings, bucketBindingsTo, bucketGrants, bucketRoutes, bucketMeta,
		bucketUndecided, bucketSent, bucketMoved, bucketRecent, bucketSeen:
		return true
	}
	return false
}

// repair deals with what a look at the file has shown, and with lanes that do not agree with their
// entries. It returns how many damaged records and lanes there were. A sound database is not written to.
func repair(b *bolt.DB, got found, now time.Time, log *slog.Logger) (n int, err error) {
	var wrong []wrongLane
	var numbers []bucket
	bad := slices.DeleteFunc(slices.Clone(got.bad), func(r badRecord) bool {
		if isMarkDay(r.bucket) { // the migration to schema 4 has left it out
			log.Error("a damaged seen mark is not believed", "err", r.err)
		}
		return isMarkDay(r.bucket)
	})
	err = b.View(func(t *bolt.Tx) error {
		for n, r := range bad {
			bad[n].meant = meant(t, r)
		}
		wrong, numbers = wrongLanes(t), wrongNumbers(t)
		n = len(bad) + len(wrong) + len(numbers)
		for _, i := range orphans(t) {
			k := key(i.ID)
			if !has(t, bucketInstances, k) && !slices.ContainsFunc(bad, func(r badRecord) bool { return bytes.Equal(r.meant, k) }) { // otherwise it is among bad
				n++
			}
		}
		return nil
	})
	if err != nil || n == 0 && !got.misses() {
		return 0, err
	}
	for _, r := range bad {
		about := []any{"err", r.err}
		switch {
		case r.meant != nil:
			about = append(about, "put back under", fmt.Sprintf("%q", r.meant))
		case isSetAside(r.bucket):
			about = append(about, "quarantined", true)
		}
		log.Error("a damaged record was found", about...)
	}
	for _, w := range wrong {
		log.Error("a lane was rebuilt: it does not agree with what is in it, so messages are lost or come again", "instance", w.key,
			"entries", w.has.entries, "expected", w.lane.Entries, "dead", w.has.dead, "dead expected", w.lane.Dead)
	}
	var lost []badRecord // without those put back
	var anew []remade
	err = b.Update(func(x *bolt.Tx) (err error) {
		t := &tx{Tx: x}
		for _, name := range numbers {
			if err := x.Bucket([]byte(name)).SetSequence(lastNumber(x, name)); err != nil {
				return fmt.Errorf("bucket %s: %w", name, err)
			}
		}
		lost = lost[:0]
		for _, r := range bad {
			back, err := t.putBack(r, now)
			if err == nil && !back {
				err, lost = t.removeDamaged(r, now), append(lost, r)
			}
			if err != nil {
				return err
			}
		}
		if anew, err = t.reinstate(lost, now); err != nil {
			return err
		}
		// What is gone leaves nothing to set aside, but a note that outlives the log of this start.
		for _, w := range wrong {
			note := fmt.Sprintf("the lane of %s held %d messages and %d dead letters, expected were %d and %d; it was rebuilt",
				w.key, w.has.entries, w.has.dead, w.lane.Entries, w.lane.Dead)
			if err := t.quarantine(Quarantined{At: now, Err: note}); err != nil {
				return err
			}
		}
		if got.misses() {
			if err := t.quarantine(Quarantined{At: now, Err: errOtherRecords.Error()}); err != nil {
				return err
			}
		}
		if err := errors.Join(t.reindexBindings(), t.recountAudit()); err != nil {
			return err
		}
		// Again: what was removed counts no more.
		for _, w := range wrongLanes(x) {
			if err := t.rebuild(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("repair: %w", err)
	}
	for _, r := range anew {
		log.Error("a record was made anew from what others say; what was damaged is in the quarantine", "bucket", r.bucket, "key", r.key, "lost", r.lost)
	}
	return n, nil
}

// removeDamaged sets r aside, if that is what is done with records of its kind.
func (t *tx) removeDamaged(r badRecord, now time.Time) error {
	if !isSetAside(r.bucket) {
		return nil
	}
	return t.toQuarantine(r, now)
}

// toQuarantine moves r to the quarantine. A seen mark has nothing to keep.
func (t *tx) toQuarantine(r badRecord, now time.Time) error {
	value := append([]byte(nil), t.Bucket([]byte(r.bucket)).Get(r.key)...)
	if r.bucket == bucketRecent || r.bucket == bucketSeen {
		good, _ := decodeMarks(r.key, value)
		return t.believe([]badMarks{{r.bucket, r.key, good, r.err}})
	}
	if err := t.del(r.bucket, r.key); err != nil {
		return err
	}
	return t.quarantine(Quarantined{At: now, Err: r.err.Error(), Raw: value})
}

// reindexBindings makes the index of bindings by instance agree with the bindings.
func (t *tx) reindexBindings() error {
	wanted := make(map[string][]byte) // key in the index -> key of the binding
	for k := range under(t.Tx, bucketBindings, nil) {
		if last := bytes.LastIndexByte(k, 0); last >= 0 { // platform|user|instance
			wanted[string(k[last+1:])+"\x00"+string(k[:last])] = bytes.Clone(k)
		}
	}
	for _, to := range keysUnder(t.Tx, bucketBindingsTo, nil) {
		if _, ok := wanted[string(to)]; ok {
			delete(wanted, string(to))
		} else if err := t.del(bucketBindingsTo, to); err != nil {
			return err
		}
	}
	for to, k := range wanted {
		if err := t.putSealed(bucketBindingsTo, []byte(to), seal([]byte(to), k)); err != nil {
			return err
		}
	}
	return nil
}

// tally is what a lane really holds.
type tally struct {
	entries, dead int
	bytes         int64
	sum           uint32
	last, deaths  uint64 // the highest numbers in use
}

// wrongLane is a lane whose record says something else than what it holds, or is not there.
type wrongLane struct {
	key  string // of the record
	lane lane   // zero when there is none, or none that can be read
	has  tally
}

func wrongLanes(t *bolt.Tx) (out []wrongLane) {
	held := make(map[string]*tally)
	of := func(k []byte, tail int) *tally {
		if len(k) <= tail {
			return &tally{} // no key of ours, so its checksum does not fit either
		}
		name := string(k[:len(k)-tail-1])
		if held[name] == nil {
			held[name] = &tally{}
		}
		return held[name]
	}
	for k, v := range under(t, bucketEntries, nil) {
		h := of(k, 8)
		h.entries++
		h.bytes += int64(len(v))
		h.sum ^= storedSum(v)
		h.last = max(h.last, tailSeq(k))
	}
	for k := range under(t, bucketDead, nil) {
		h := of(k, 24)
		h.dead++
		if len(k) > 24 {
			h.deaths = max(h.deaths, binary.BigEndian.Uint64(k[len(k)-24:]))
		}
	}
	for k, v := range under(t, bucketLanes, nil) {
		l, err := decode[lane](k, v)
		h := of(append(k[:len(k):len(k)], 0), 0)
		delete(held, string(k))
		if err != nil || l.Entries != h.entries || l.Bytes != h.bytes || l.Sum != h.sum || l.Dead != h.dead ||
			l.Last < h.last || l.Deaths < h.deaths {
			out = append(out, wrongLane{key: string(k), lane: l, has: *h})
		}
	}
	for name, h := range held {
		out = append(out, wrongLane{key: name, has: *h})
	}
	return out
}

// rebuild writes a lane record that agrees with what is there. One that could not be read gets a
// new epoch, for nobody knows which numbers it has given out.
func (t *tx) rebuild(w wrongLane) error {
	l := w.lane
	l.Entries, l.Bytes, l.Sum, l.Dead = w.has.entries, w.has.bytes, w.has.sum, w.has.dead
	l.Deaths = max(l.Deaths, w.has.deaths)
	if l.Epoch == 0 || l.Last < w.has.last {
		l.Epoch, l.Last = newEpoch(), w.has.last
	}
	return t.put(bucketLanes, []byte(w.key), l)
}

// sumLanes gives the lanes of a file from before schema 2 their sums.
func sumLanes(t *bolt.Tx) error {
	for _, w := range wrongLanes(t) {
		if w.lane.Epoch == 0 {
			continue // never used, or unreadable, which repair says
		}
		w.lane.Sum = w.has.sum
		if err := (&tx{Tx: t}).put(bucketLanes, []byte(w.key), w.lane); err != nil {
			return err
		}
	}
	return nil
}

// wrongNumbers are the buckets of running numbers whose counter is not at the last one: it would
// give out numbers that are taken. In the audit list the last one may be gone.
func wrongNumbers(t *bolt.Tx) (out []bucket) {
	for _, name := range []bucket{bucketQuarantine, bucketAudit} {
		last, next := lastNumber(t, name), t.Bucket([]byte(name)).Sequence()
		if last > next || last != 0 && last != next && name == bucketQuarantine {
			out = append(out, name)
		}
	}
	if t.Bucket([]byte(bucketUndecided)).Sequence() < lastNumber(t, bucketUndecided) {
		out = append(out, bucketUndecided)
	}
	return out
}

func lastNumber(t *bolt.Tx, b bucket) (last uint64) {
	for k := range under(t, b, nil) {
		last = max(last, tailSeq(k))
	}
	return last
}

// errFellBack is what the log says when the newest commit is gone.
var errFellBack = errors.New("the meta page of the newest commit is unreadable: what was accepted in that commit is lost, " +
	"and what it deleted is back. After a power cut it may be a commit nobody was told of; otherwise compare with the last snapshot")
