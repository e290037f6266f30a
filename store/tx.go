package store

import (
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// tx is a write transaction as the ops of one batch see it: a boltfile.Batch.
type tx struct {
	*table.Writer
	db *DB // nil when nobody uses the database yet
	// lanes are the lane states touched so far. They are written once, before the commit,
	// however many entries a batch moves.
	lanes       map[relay.InstanceID]*lane
	marks       map[seen.Mark]uint32 // made so far, with their days; stored before the commit
	cursors     map[string][]byte    // moved so far, by their key; stored, before the commit, if anything is
	waiting     map[string][]byte    // those that were moved before and are not on disk; not to be changed
	took        bool                 // the cursors were stored, or there are none
	died        []DeadReason         // of the dead letters made
	released    int                  // held files that an entry less names
	deadDropped uint64               // dead letters dropped because there were too many
	row         *audit.Entry         // what the op that runs is to leave in the audit list; nil for none
	noted       func()               // what to do about what rides along once the transaction is stored
}

// begin is boltfile's Format.Begin.
func (db *DB) begin(w *boltfile.Writer) boltfile.Batch {
	w.Note = func(bucket string) {
		if bucket == BucketInstances {
			db.instances.forget(w.ID())
		}
	}
	return &tx{Writer: &table.Writer{Writer: w}, db: db, waiting: db.cursors.waiting, noted: func() {}}
}

// clock is the time.
func (t *tx) clock() time.Time {
	if t.db == nil {
		return time.Now().UTC()
	}
	return t.db.now()
}

// edit is a transaction of somebody who has the file for himself.
func edit(x *bolt.Tx) *tx { return &tx{Writer: table.Edit(x)} }

// Settle stores the cursors and the notes that ride along, and the lanes that were touched.
func (t *tx) Settle(spare bool) (err error) {
	t.took = spare && (t.Changes > 0 || t.db.cursors.due)
	if t.took {
		if err := t.takeCursors(); err != nil {
			return err
		}
		if err := t.takeNotes(); err != nil {
			return err
		}
	}
	return t.flush()
}

// takeNotes stores the notes that ride along.
func (t *tx) takeNotes() error {
	s, c, p := t.db.Sent, t.db.Capabilities, t.db.Prompts
	messages, answers, cleared := s.notes.Taken(), c.notes.Taken(), p.notes.Taken()
	count, err := s.count.Ride(t.Writer, messages, func(i relay.InstanceID) bool {
		l, err := t.lane(i)
		return err != nil || l.Closed
	})
	if err := errors.Join(err, capability.Ride(t.Writer, answers), prompt.Ride(t.Writer, cleared)); err != nil {
		return err
	}
	t.noted = func() {
		s.count = count
		s.notes.Stored(messages)
		c.notes.Stored(answers)
		p.notes.Stored(cleared)
	}
	return nil
}

// Done notes what became of the transaction.
func (t *tx) Done(stored bool) {
	t.db.cursors.after(t.took, t.cursors, t.db.remind)
	if !stored {
		return
	}
	t.noted()
	t.db.deadDropped.Add(t.deadDropped)
	for _, why := range t.died {
		t.db.died[slices.Index(deadReasons[:], why)].Add(1)
	}
}
