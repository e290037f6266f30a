package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// An event that was stored leaves a mark, for a platform may bring it again. The ids of events come
// in no order that helps: kept in a tree by themselves, each mark would cost that tree's page and
// the branches above it, which is as much as all else that an accept writes. So the newest marks
// of a day stand in one record, small enough that bbolt keeps it in the root page, which every
// commit writes anyway. When that is full its marks become a run: sorted, in records of a page's
// half. When runFan runs of one size have come together they become one of the next size. So a
// look at a mark is a seek per run, of which there are few, and a mark is written once per size.
// Nothing of it is kept in memory.

const (
	recentMarks = 48  // in the record of the newest
	recordMarks = 120 // in a record of a run
	runFan      = 4   // runs of one level that become one of the next
	topLevel    = 6   // whose runs stay as they are: 3 MiB are enough for one commit
)

// mark stands for one event of one bot: 96 bits that no two share. In a record its checksum follows, so
// that damage to one does not touch the others.
type mark [12]byte

const storedMark = len(mark{}) + 4

func markOf(b relay.Bot, e relay.EventID) mark {
	return markOfKey(table.Key(b.Platform, string(b.ID), string(e)))
}

func markOfKey(k []byte) mark {
	sum := sha256.Sum256(k)
	return mark(sum[:])
}

// The key of a run is its day, its level and its number, one of its records that and its last mark.
type runKey [9]byte

func newRunKey(day uint32, level byte, n uint32) (k runKey) {
	copy(k[:], dayKey(day))
	k[4] = level
	binary.BigEndian.PutUint32(k[5:], n)
	return k
}

func (k runKey) number() uint32 { return binary.BigEndian.Uint32(k[5:]) }

// behind is a key behind all of the run's records.
func (k runKey) behind() []byte { return append(k[:], bytes.Repeat([]byte{0xff}, len(mark{})+1)...) }

// dayOf numbers the UTC days.
func dayOf(at time.Time) uint32 { return uint32(at.Unix() / int64(day/time.Second)) }

func dayKey(day uint32) []byte { return binary.BigEndian.AppendUint32(nil, day) }

// keyDay is the day of a key of marks.
func keyDay(k []byte) uint32 {
	if len(k) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(k)
}

func (m mark) sum() []byte { return binary.BigEndian.AppendUint32(nil, boltfile.Checksum(m[:], nil)) }

func encodeMarks(ms []mark) []byte {
	out := make([]byte, 0, len(ms)*storedMark)
	for _, m := range ms {
		out = append(append(out, m[:]...), m.sum()...)
	}
	return out
}

// decodeMarks are the marks of a record: newest last in one of the newest, sorted in one of a run. From one that
// is damaged come those that are not, with the error.
func decodeMarks(k, value []byte) (ms []mark, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		payload = value[min(len(value), boltfile.EnvelopeSize):]
	}
	ms = make([]mark, 0, len(payload)/storedMark)
	for ; len(payload) >= storedMark; payload = payload[storedMark:] {
		m := mark(payload)
		if err == nil || bytes.Equal(payload[len(m):storedMark], m.sum()) {
			ms = append(ms, m)
		}
	}
	return ms, err
}

// Seen reports whether the event has a seen mark. Marks live for at least three days. Damaged
// marks are not believed: their record is counted and named in the log, and the event may come a second time.
func (db *DB) Seen(ctx context.Context, b relay.Bot, e relay.EventID) (seen bool, err error) {
	m := markOf(b, e)
	var bad []badMarks
	err = db.read(ctx, func(t *bolt.Tx) error {
		seen, bad = isSeen(t, m)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("seen: %w", err)
	}
	db.report(bad)
	return seen, nil
}

// badMarks is a record of marks that is not what was once written.
type badMarks struct {
	bucket string
	key    []byte
	good   []mark // that can be believed nevertheless
	err    error
}

// report counts damaged records of marks and names them.
func (db *DB) report(bad []badMarks) {
	db.badMarks.Add(uint64(len(bad)))
	for _, b := range bad {
		db.log.Error("seen marks are not believed; their events may come a second time", "err", boltfile.DamagedRecord(b.bucket, b.key, b.err))
	}
}

// isSeen looks for m among the newest marks and in each run. bad are the damaged records it met.
func isSeen(t *bolt.Tx, m mark) (seen bool, bad []badMarks) {
	in := func(b string, k, value []byte) bool {
		payload, err := boltfile.Unseal(k, value)
		if err != nil {
			good, _ := decodeMarks(k, value)
			bad = append(bad, badMarks{b, bytes.Clone(k), good, err})
			return slices.Contains(good, m)
		}
		for ; len(payload) >= storedMark; payload = payload[storedMark:] {
			if mark(payload) == m {
				return true
			}
		}
		return false
	}
	for k, value := range table.Under(t, bucketRecent, nil) {
		if in(bucketRecent, k, value) {
			return true, bad
		}
	}
	c := t.Bucket([]byte(bucketSeen)).Cursor()
	for k, _ := c.First(); len(k) > len(runKey{}); {
		run := runKey(k)
		var value []byte
		if k, value = c.Seek(append(run[:], m[:]...)); bytes.HasPrefix(k, run[:]) {
			if in(bucketSeen, k, value) {
				return true, bad
			}
			k, _ = c.Seek(run.behind())
		}
	}
	return false, bad
}

// believe replaces damaged records of marks by what of them can be believed.
func (t *tx) believe(bad []badMarks) error {
	for _, b := range bad {
		err := t.Delete(b.bucket, b.key)
		switch {
		case err != nil:
		case b.bucket == bucketSeen:
			err = t.putRun(runKey(b.key), b.good)
		case len(b.good) > 0:
			err = t.PutSealed(b.bucket, b.key, boltfile.Seal(b.key, encodeMarks(b.good)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isSeen looks also for what this transaction has marked so far.
func (t *tx) isSeen(m mark) (seen bool, bad []badMarks) {
	if _, ok := t.marks[m]; ok {
		return true, nil
	}
	return isSeen(t.Tx, m)
}

// mark remembers an event under the day of now.
func (t *tx) mark(m mark, now time.Time) {
	if t.marks == nil {
		t.marks = make(map[mark]uint32)
	}
	t.marks[m] = dayOf(now)
	t.Changes++
}

// storeMarks stores what was marked: with the newest of its day, or as a run when those are too many.
// What was the newest of another day becomes a run of that day.
func (t *tx) storeMarks() error {
	if len(t.marks) == 0 {
		return nil
	}
	byDay := make(map[uint32][]mark)
	for m, day := range t.marks {
		byDay[day] = append(byDay[day], m)
	}
	newest := slices.Max(slices.Collect(maps.Keys(byDay)))
	for _, k := range table.KeysUnder(t.Tx, bucketRecent, nil) {
		had, err := decodeMarks(k, t.Bucket([]byte(bucketRecent)).Get(k))
		if err == nil {
			byDay[keyDay(k)] = append(had, byDay[keyDay(k)]...)
		}
		if keyDay(k) == newest && err == nil {
			continue // is written anew below
		}
		if err := t.Delete(bucketRecent, k); err != nil {
			return err
		}
	}
	for _, day := range slices.Sorted(maps.Keys(byDay)) {
		var err error
		switch k, ms := dayKey(day), byDay[day]; {
		case day == newest && len(ms) <= recentMarks:
			err = t.PutSealed(bucketRecent, k, boltfile.Seal(k, encodeMarks(ms)))
		case day == newest && table.Has(t.Tx, bucketRecent, k):
			err = errors.Join(t.Delete(bucketRecent, k), t.addRun(day, 0, ms))
		default:
			err = t.addRun(day, 0, ms)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addRun stores marks as a run of a level, together with the runs of that level if they are enough for
// one of the next.
func (t *tx) addRun(day uint32, level byte, ms []mark) error {
	for ; ; level++ {
		runs := t.runs(day, level)
		if level == topLevel || len(runs) < runFan-1 {
			var n uint32
			if len(runs) > 0 {
				n = runs[len(runs)-1].number() + 1
			}
			return t.putRun(newRunKey(day, level, n), ms)
		}
		for _, run := range runs {
			for _, k := range table.KeysUnder(t.Tx, bucketSeen, run[:]) {
				more, err := decodeMarks(k, t.Bucket([]byte(bucketSeen)).Get(k))
				if err != nil {
					continue // it stays, to be named whenever it is met
				}
				ms = append(ms, more...)
				if err := t.Delete(bucketSeen, k); err != nil {
					return err
				}
			}
		}
	}
}

// runs are the runs of a day's level, in the order of their numbers.
func (t *tx) runs(day uint32, level byte) (out []runKey) {
	c := t.Bucket([]byte(bucketSeen)).Cursor()
	pre := append(dayKey(day), level)
	for k, _ := c.Seek(pre); len(k) > len(runKey{}) && bytes.HasPrefix(k, pre); {
		run := runKey(k)
		out = append(out, run)
		k, _ = c.Seek(run.behind())
	}
	return out
}

// putRun stores marks as the run under k.
func (t *tx) putRun(k runKey, ms []mark) error {
	slices.SortFunc(ms, func(a, b mark) int { return bytes.Compare(a[:], b[:]) })
	for part := range slices.Chunk(slices.Compact(ms), recordMarks) {
		last := part[len(part)-1]
		k := append(k[:len(k):len(k)], last[:]...)
		if err := t.AppendSealed(bucketSeen, k, boltfile.Seal(k, encodeMarks(part))); err != nil {
			return err
		}
	}
	return nil
}

// seen drops the marks of days that are long over.
func (s *sweep) seen(t *tx) error {
	oldest := dayOf(s.now) - seenDays
	over := make(map[uint32]bool)
	for _, b := range []string{bucketRecent, bucketSeen} {
		for _, k := range table.KeysUnder(t.Tx, b, nil) {
			if keyDay(k) >= oldest {
				break
			}
			over[keyDay(k)] = true
			if err := t.Delete(b, k); err != nil {
				return err
			}
		}
	}
	s.SeenDays = len(over)
	return nil
}

// toRuns makes runs of the seen marks of a file from before schema 4, which had a bucket for each day. It
// holds one run in memory at a time.
func toRuns(x *bolt.Tx) error {
	t := edit(x)
	for _, b := range []string{bucketRecent, bucketSeen} {
		if _, err := x.CreateBucketIfNotExists([]byte(b)); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	largest := recentMarks
	for range topLevel {
		largest *= runFan
	}
	for _, old := range markDays(x) {
		var ms []mark
		n := uint32(0)
		store := func() error {
			n++
			err := t.putRun(newRunKey(markDay(old), topLevel, n), ms)
			ms = ms[:0]
			return err
		}
		for k, v := range table.Under(x, old, nil) {
			if checkMark(k, v) != nil {
				continue // never believed
			}
			if ms = append(ms, markOfKey(k)); len(ms) < largest {
				continue
			}
			if err := store(); err != nil {
				return err
			}
		}
		if err := errors.Join(store(), t.Drop(old)); err != nil {
			return fmt.Errorf("bucket %s: %w", old, err)
		}
	}
	return nil
}

// markDayPrefix began the names of the buckets of seen marks, one for each day, until schema 4. A mark was
// a key, under which its checksum stood.
const markDayPrefix = "hot/seen/"

// markDays are these buckets, oldest first.
func markDays(t *bolt.Tx) (out []string) {
	c := t.Cursor()
	for k, _ := c.Seek([]byte(markDayPrefix)); isMarkDay(string(k)); k, _ = c.Next() {
		out = append(out, string(k))
	}
	return out
}

func isMarkDay(b string) bool { return markDay(b) != 0 }

// markDay is the day of such a bucket; 0 when b is none.
func markDay(b string) uint32 {
	at, err := time.Parse(markDayPrefix+time.DateOnly, string(b))
	if err != nil {
		return 0
	}
	return dayOf(at)
}

// checkMark looks at the checksum of such a mark.
func checkMark(k, value []byte) error {
	if len(value) > 0 && !bytes.Equal(value, markValue(k)) { // before schema 2 marks had no value
		return errors.New("the checksum does not fit")
	}
	return nil
}

// markValue is what stands under the key of such a mark.
func markValue(k []byte) []byte { return binary.BigEndian.AppendUint32(nil, boltfile.Checksum(k, nil)) }
