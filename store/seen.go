package store

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/seen"
	bolt "go.etcd.io/bbolt"
)

// Seen reports whether the event has a seen mark. Marks live for at least three days. Damaged
// marks are not believed: their record is counted and named in the log, and the event may come a second time.
func (db *DB) Seen(ctx context.Context, b relay.Bot, e relay.EventID) (bool, error) {
	var bad []seen.Bad
	has, err := get(ctx, db, "seen", func(t *bolt.Tx) (has bool, err error) {
		has, bad = seen.Has(t, seen.Of(b, e))
		return has, nil
	})
	db.report(bad)
	return has, err
}

// report counts damaged records of marks and names them.
func (db *DB) report(bad []seen.Bad) {
	db.badMarks.Add(uint64(len(bad)))
	for _, b := range bad {
		db.log.Error("seen marks are not believed; their events may come a second time", "err", b.Err)
	}
}

// isSeen looks also for what this transaction has marked so far.
func (t *tx) isSeen(m seen.Mark) (has bool, bad []seen.Bad) {
	if _, ok := t.marks[m]; ok {
		return true, nil
	}
	return seen.Has(t.Tx, m)
}

// mark remembers an event under the day of now.
func (t *tx) mark(m seen.Mark, now time.Time) {
	if t.marks == nil {
		t.marks = make(map[seen.Mark]uint32)
	}
	t.marks[m] = seen.Day(now)
	t.Changes++
}
