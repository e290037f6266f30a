package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// tx is a write transaction as the ops of one batch see it: a boltfile.Batch.
type tx struct {
	*table.Writer
	db          *DB // nil in an Edit
	recents     *recents
	order       *order                     // as of the commit before; nil before it is needed
	arrival     uint64                     // of the newest entry
	lanes       map[relay.InstanceID]*lane // used so far; flush writes those that were touched
	marks       dedupe.Batch
	cursors     map[string][]byte // moved so far, by their key; stored with the transaction if it stores anything else
	waiting     map[string][]byte // cursors of earlier transactions that are not on disk; not to be changed
	took        bool              // the transaction stores all cursors and notes that wait, if there are any
	died        []DeadReason      // of the dead letters made
	released    int               // held files that removed entries named, once for each entry
	deadDropped uint64            // dead letters dropped because there were too many
	row         *audit.Entry      // the audit row for the op that runs; nil: none
	history     history.Batch
	stored      [5]func() // called once the transaction is stored, for the notes that ride along; nil: nothing
}

// begin is boltfile's Format.Begin.
func (db *DB) begin(w *boltfile.Writer) boltfile.Batch {
	w.Note = func(bucket string) { db.recents.forget(bucket, w.ID()) }
	return &tx{Writer: &table.Writer{Writer: w}, db: db, recents: &db.recents, order: db.order, arrival: db.order.last, marks: db.Seen.Batch(), waiting: db.cursors.waiting}
}

// change runs fn in the next transaction; what names the change in front of an error. It stores row in the audit list
// if fn changes something; nil: no row. See table.DB.Change for the rest.
func (db *DB) change(ctx context.Context, row *audit.Entry, what string, fn func(*tx) error, adds ...int) error {
	row = row.Stamped(db.now())
	var left *audit.Entry // the complete row that was stored
	err := db.records.Run(ctx, what, func(b boltfile.Batch) (err error) {
		left, err = b.(*tx).audited(row, fn)
		return err
	}, adds...)
	if err == nil && left != nil && left.Actor.Kind == audit.ActorCLI {
		db.log.Info("changed by the operator", left.Attrs()...)
	}
	return err
}

// audited runs fn, and stores row unless it is nil or fn changes nothing.
func (t *tx) audited(row *audit.Entry, fn func(*tx) error) (left *audit.Entry, err error) {
	if t.row = nil; row != nil {
		own := *row // the op may run again
		t.row = &own
	}
	before := t.Changes
	if err := fn(t); err != nil || t.row == nil || t.Changes == before {
		return nil, err
	}
	return t.row, audit.Add(t.Writer, *t.row)
}

// concerns completes the audit row of the op that runs with ids that the op found out.
func (t *tx) concerns(tenant relay.TenantID, i relay.InstanceID, g relay.GatewayID) {
	if t.row == nil {
		return
	}
	t.row.Tenant, t.row.Instance, t.row.Gateway = cmp.Or(t.row.Tenant, tenant), cmp.Or(t.row.Instance, i), cmp.Or(t.row.Gateway, g)
}

// clock returns the time.
func (t *tx) clock() time.Time {
	if t.db == nil {
		return time.Now().UTC()
	}
	return t.db.now()
}

// Settle stores the lanes that were touched and, if the transaction changes anything else or the cursors are due, the
// waiting cursors and the notes that ride along. spare says that the disk has room for these two; without it they go on
// waiting.
func (t *tx) Settle(spare bool) (err error) {
	t.took = spare && (t.Changes > 0 || t.db.cursors.due)
	if t.took {
		if err := errors.Join(t.takeCursors(), t.takeNotes()); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil || !t.took {
		return err
	}
	// The history comes last: room counts what everything else has put into the root page.
	t.stored[len(t.stored)-1], err = t.db.History.Ride(t.Writer, t.history, t.room(history.Newest))
	return err
}

// takeNotes stores the notes that ride along.
func (t *tx) takeNotes() error {
	sent, err1 := t.db.Authors.Ride(t.Writer, func(i relay.InstanceID) bool {
		l, err := t.lane(i)
		return err != nil || l.Closed
	})
	answers, err2 := t.db.Capabilities.Ride(t.Writer)
	cleared, err3 := t.db.Prompts.Ride(t.Writer)
	named, err4 := t.db.People.ride(t.Writer)
	t.stored = [...]func(){sent, answers, cleared, named, nil}
	return errors.Join(err1, err2, err3, err4)
}

// flush writes the lanes that were touched and the marks that were made. If a lane or a mark is changed later, flush
// must be called again.
func (t *tx) flush() error {
	for i, l := range t.lanes {
		if !l.touched {
			continue
		}
		if err := t.Put(bucketLanes, table.Key(i), l.laneRecord); err != nil {
			return err
		}
	}
	return t.marks.Store(t.Writer)
}

// Done updates what is remembered in memory, after the transaction. stored is false if the transaction had nothing to
// store.
func (t *tx) Done(stored bool) {
	t.db.cursors.after(t.took, t.cursors, t.db.remind)
	if !stored {
		return
	}
	if !t.took {
		t.db.History.Wait(t.history)
	}
	t.order.stored(t.lanes, t.arrival)
	t.db.Seen.Stored(t.marks)
	for _, note := range t.stored {
		if note != nil {
			note()
		}
	}
	t.db.deadDropped.Add(t.deadDropped)
	for _, why := range t.died {
		t.db.died[slices.Index(deadReasons[:], why)].Add(1)
	}
}
