package dedupe

import (
	"bytes"
	"errors"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Store stores the marks that the transaction made. Marks of the newest day join its record of the newest; if they are
// too many for the record, all of them become a run. Marks of another day become a run of that day.
func (b *Batch) Store(w *table.Writer) error {
	if len(b.made) == 0 {
		return nil
	}
	byDay, newest := make(map[uint32][]Mark), uint32(0)
	for m, day := range b.made {
		byDay[day], newest = append(byDay[day], m), max(newest, day)
	}
	for _, k := range table.KeysUnder(w.Tx, Newest, nil) {
		had, err := Decode(k, w.Bucket([]byte(Newest)).Get(k))
		if err == nil {
			byDay[keyDay(k)] = append(had, byDay[keyDay(k)]...)
		}
		if keyDay(k) == newest && err == nil {
			continue // the record is written anew below
		}
		if err := w.Delete(Newest, k); err != nil {
			return err
		}
	}
	for day, ms := range byDay {
		var err error
		switch k := DayKey(day); {
		case day == newest && len(ms) <= MaxNewest:
			err = w.PutSealed(Newest, k, boltfile.Seal(k, Encode(ms)))
		case day == newest && table.Has(w.Tx, Newest, k):
			err = errors.Join(w.Delete(Newest, k), addRun(w, day, 0, ms))
		default:
			err = addRun(w, day, 0, ms)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addRun stores marks as a run of a level. If that makes runFan runs of the level, all of them become one run of the
// next level.
func addRun(w *table.Writer, day uint32, level byte, ms []Mark) error {
	for ; ; level++ {
		runs := runsOf(w.Tx, day, level)
		if level == topLevel || len(runs) < runFan-1 {
			var n uint32
			if len(runs) > 0 {
				n = runs[len(runs)-1].number() + 1
			}
			return putRun(w, newRunKey(day, level, n), ms)
		}
		for _, run := range runs {
			for _, k := range table.KeysUnder(w.Tx, Runs, run[:]) {
				more, err := Decode(k, w.Bucket([]byte(Runs)).Get(k))
				if err != nil {
					continue // a damaged record stays, and is reported whenever a lookup finds it
				}
				ms = append(ms, more...)
				if err := w.Delete(Runs, k); err != nil {
					return err
				}
			}
		}
	}
}

// runsOf returns the runs of a day's level, in the order of their numbers.
func runsOf(t *bolt.Tx, day uint32, level byte) (out []runKey) {
	c := t.Bucket([]byte(Runs)).Cursor()
	pre := append(DayKey(day), level)
	for k, _ := c.Seek(pre); len(k) > len(runKey{}) && bytes.HasPrefix(k, pre); {
		run := runKey(k)
		out = append(out, run)
		k, _ = c.Seek(run.behind())
	}
	return out
}

// putRun stores marks as the run under k.
func putRun(w *table.Writer, k runKey, ms []Mark) error {
	slices.SortFunc(ms, func(a, b Mark) int { return bytes.Compare(a[:], b[:]) })
	for part := range slices.Chunk(slices.Compact(ms), recordMarks) {
		last := part[len(part)-1]
		k := append(k[:len(k):len(k)], last[:]...)
		if err := w.AppendSealed(Runs, k, boltfile.Seal(k, Encode(part))); err != nil {
			return err
		}
	}
	return nil
}

// Believe puts the good marks of each damaged record in the place of the record.
func Believe(w *table.Writer, bad []Bad) error {
	for _, b := range bad {
		err := w.Delete(b.bucket, b.key)
		switch {
		case err != nil:
		case b.bucket == Runs && len(b.key) > len(runKey{}):
			err = putRun(w, runKey(b.key), b.good)
		case len(b.good) > 0:
			err = w.PutSealed(b.bucket, b.key, boltfile.Seal(b.key, Encode(b.good)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Sweep drops the marks that are older than Days, and returns for how many days it dropped marks.
func (b *Batch) Sweep(w *table.Writer, now time.Time) (days int, err error) {
	b.from = Day(now) - Days
	over := make(map[uint32]bool)
	for _, bucket := range []string{Newest, Runs} {
		for _, k := range table.KeysUnder(w.Tx, bucket, nil) {
			if keyDay(k) >= b.from {
				break
			}
			over[keyDay(k)] = true
			if err := w.Delete(bucket, k); err != nil {
				return 0, err
			}
		}
	}
	return len(over), nil
}
