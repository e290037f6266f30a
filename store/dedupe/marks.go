// Package dedupe remembers which events were stored, because a platform may bring an event again.
//
// Every event leaves a mark. Marks come in no order. In a tree of their own, each mark would change one leaf and the
// branches above it: as many pages as everything else that an accept writes. So the newest marks of a day are in one
// record, which bbolt keeps in the root page, and every commit writes the root page anyway. When the record is full,
// its marks become a run: sorted, in records of half a page. runFan runs of one level become one run of the next level.
// A lookup is one seek per run, there are few runs, and a mark is written once per level. The marks of the newest
// commit are in memory, too, up to a limit: most lookups do not read the file.
package dedupe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// The buckets of marks.
const (
	Newest = "hot/seen" // day -> the newest marks, in the order they came
	Runs   = "seen"     // day, level, number of a run, last mark -> marks, sorted
)

const (
	// MaxNewest is how many marks the record of the newest holds.
	MaxNewest = 32
	// Days is how many whole days after its own day a Mark is kept.
	Days        = 3
	recordMarks = 120 // how many marks a record of a run holds
	runFan      = 4   // how many runs of one level become one of the next
	topLevel    = 6   // its runs stay as they are: one of 3 MiB is enough for one commit
)

// Mark stands for one event of one bot: 96 bits of a hash, so that no two events share a mark. In a record each mark
// has its own checksum behind it, so that damage to one mark leaves the others readable.
type Mark [12]byte

// Stored is the size of a mark in a record.
const Stored = len(Mark{}) + 4

// Of returns the mark of an event.
func Of(b relay.Bot, e relay.EventID) Mark {
	return markOfKey(table.Key(b.Platform, string(b.ID), string(e)))
}

func markOfKey(k []byte) Mark {
	sum := sha256.Sum256(k)
	return Mark(sum[:])
}

// runKey is a run's day, level and number. A record of the run has the runKey and the record's last mark as its key.
type runKey [9]byte

func newRunKey(day uint32, level byte, n uint32) (k runKey) {
	copy(k[:], DayKey(day))
	k[4] = level
	binary.BigEndian.PutUint32(k[5:], n)
	return k
}

func (k runKey) number() uint32 { return binary.BigEndian.Uint32(k[5:]) }

// behindMarks sorts behind every mark.
const behindMarks = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"

// behind returns a key that sorts behind all of the run's records.
func (k runKey) behind() []byte { return append(k[:], behindMarks...) }

// Day numbers the UTC days.
func Day(at time.Time) uint32 { return uint32(at.Unix() / (24 * 60 * 60)) }

// DayKey returns the key of the newest marks of a day.
func DayKey(day uint32) []byte { return binary.BigEndian.AppendUint32(nil, day) }

// keyDay returns the day of a key of marks.
func keyDay(k []byte) uint32 {
	if len(k) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(k)
}

// Encode returns the payload of a record of marks.
func Encode(ms []Mark) []byte {
	out := make([]byte, 0, len(ms)*Stored)
	for n := range ms {
		m := ms[n][:]
		out = binary.BigEndian.AppendUint32(append(out, m...), boltfile.Checksum(m, nil))
	}
	return out
}

// Decode returns the marks of a record: the newest last in Newest, sorted in Runs. From a damaged record it returns the
// marks whose own checksum fits, and the error.
func Decode(k, value []byte) (ms []Mark, err error) {
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		payload = value[min(len(value), boltfile.EnvelopeSize):]
	}
	ms = make([]Mark, 0, len(payload)/Stored)
	for ; len(payload) >= Stored; payload = payload[Stored:] {
		m := payload[:len(Mark{})]
		if err == nil || binary.BigEndian.Uint32(payload[len(m):]) == boltfile.Checksum(m, nil) {
			ms = append(ms, Mark(m))
		}
	}
	return ms, err
}

// Bad is a damaged record of marks.
type Bad struct {
	Err    error // names the record
	bucket string
	key    []byte
	good   []Mark // the marks whose own checksum fits
}

// Damaged returns the Bad for the record of marks under k; why says what is wrong with it.
func Damaged(bucket string, k, value []byte, why error) Bad {
	good, _ := Decode(k, value)
	return Bad{Err: boltfile.DamagedRecord(bucket, k, why), bucket: bucket, key: bytes.Clone(k), good: good}
}

// Marks are those of all events. Its methods may be called from any goroutine.
type Marks struct {
	db  *table.DB
	log *slog.Logger
	bad atomic.Uint64 // damaged records that were found

	known known
}

// New makes the marks of db. Load must be called before anybody else uses them. Damaged records are reported to log.
func New(db *table.DB, log *slog.Logger) *Marks { return &Marks{db: db, log: log} }

// Has reports whether the event has a mark. Marks live for at least three days. Damaged marks are not believed: their
// record is counted and named in the log, and the event may come a second time.
func (ms *Marks) Has(ctx context.Context, b relay.Bot, e relay.EventID) (bool, error) {
	if seen, sure := ms.known.has(Of(b, e)); sure {
		return seen, ctx.Err()
	}
	var bad []Bad
	has, err := table.Get(ctx, ms.db, "seen", func(t *bolt.Tx) (has bool, _ error) {
		has, bad = Has(t, Of(b, e))
		return has, nil
	})
	ms.Report(bad)
	return has, err
}

// Report counts damaged records and names them.
func (ms *Marks) Report(bad []Bad) {
	ms.bad.Add(uint64(len(bad)))
	for _, b := range bad {
		ms.log.Error("seen marks are not believed; their events may come a second time", "err", b.Err)
	}
}

// Damaged returns how many damaged records were found.
func (ms *Marks) Damaged() uint64 { return ms.bad.Load() }

// Batch holds the marks of one write transaction.
type Batch struct {
	marks *Marks          // nil in a store.Edit, which has no DB: then no marks are remembered
	made  map[Mark]uint32 // the marks that were made, with their days
	from  uint32          // the marks of days before this one were dropped (Sweep)
}

// Batch begins a transaction.
func (ms *Marks) Batch() Batch { return Batch{marks: ms} }

// Has is like the function Has, but also finds the marks that the transaction has made so far. It does not read the
// file for marks that are remembered.
func (b *Batch) Has(t *bolt.Tx, m Mark) (has bool, bad []Bad) {
	if _, ok := b.made[m]; ok {
		return true, nil
	}
	if b.marks != nil {
		if seen, sure := b.marks.known.has(m); sure {
			return seen, nil
		}
	}
	return Has(t, m)
}

// Mark adds a mark, under the day of now, to those that Store will store before the commit.
func (b *Batch) Mark(w *table.Writer, m Mark, now time.Time) {
	if b.made == nil {
		b.made = make(map[Mark]uint32)
	}
	b.made[m] = Day(now)
	w.Changes++
}

// Has reports whether m is among the newest marks or in a run. bad are the damaged records that it found.
func Has(t *bolt.Tx, m Mark) (seen bool, bad []Bad) {
	in := func(b string, k, value []byte) bool {
		payload, err := boltfile.Unseal(k, value)
		if err != nil {
			bad = append(bad, Damaged(b, k, value, err))
			return slices.Contains(bad[len(bad)-1].good, m)
		}
		for ; len(payload) >= Stored; payload = payload[Stored:] {
			if Mark(payload) == m {
				return true
			}
		}
		return false
	}
	for k, value := range table.Under(t, Newest, nil) {
		if in(Newest, k, value) {
			return true, bad
		}
	}
	c := t.Bucket([]byte(Runs)).Cursor()
	for k, _ := c.First(); len(k) > len(runKey{}); {
		run := runKey(k)
		var value []byte
		if k, value = c.Seek(append(run[:], m[:]...)); bytes.HasPrefix(k, run[:]) {
			if in(Runs, k, value) {
				return true, bad
			}
			k, _ = c.Seek(run.behind())
		}
	}
	return false, bad
}
