package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const BucketCursors = "hot/cursors" // platform|bot -> bytes

func botKey(b relay.Bot) []byte { return table.Key(b.Platform, string(b.ID)) }

// A cursor alone is not worth a write, or strangers whose messages are dropped would make the disk work. It waits in
// memory, where every reader sees it as stored, until the next commit of anybody takes it along, or for a minute, or
// until Close. A crash loses waiting cursors: then the platform repeats events that were dropped, or that have their
// seen marks.
//
// A cursor on disk is never past an event that is not on disk: a cursor waits only if nothing of its batch, or of an
// earlier batch, is still to be stored. Otherwise it is stored in the transaction that stores the events of its batch.

// cursorTime is how long a cursor waits for a commit that takes it along.
const cursorTime = time.Minute

// cursors are the cursors of all bots: those on disk, and those that wait.
type cursors struct {
	stored map[string][]byte // on disk, by their key; only the writer uses it

	mu sync.Mutex // guards waiting, which only the writer changes and others read

	waiting map[string][]byte // the bytes, by their key
	due     bool              // the waiting cursors have waited long enough; only the writer uses it
	timer   *time.Timer       // runs until the wait is over; nil before the first wait; only the writer uses it
}

// load reads the cursors that are on disk.
func (c *cursors) load(t *bolt.Tx) {
	c.stored = make(map[string][]byte)
	for k, v := range table.Under(t, BucketCursors, nil) {
		if cursor, err := boltfile.Unseal(k, v); err == nil {
			c.stored[string(k)] = bytes.Clone(cursor)
		}
	}
}

// get returns the cursor that waits under k.
func (c *cursors) get(k []byte) (cursor []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cursor, ok = c.waiting[string(k)]
	return bytes.Clone(cursor), ok
}

// after updates the cursors after a transaction that moved some. With taken all cursors are on disk; otherwise the
// moved ones wait, too. The first cursor that waits starts the minute after which remind is called.
func (c *cursors) after(taken bool, moved map[string][]byte, remind func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case taken:
		c.stop()
		maps.Copy(c.stored, c.waiting)
		maps.Copy(c.stored, moved)
		c.waiting, c.due = nil, false
	case len(moved) == 0:
	case len(c.waiting) == 0:
		c.waiting, c.timer = moved, time.AfterFunc(cursorTime, remind)
	default:
		maps.Copy(c.waiting, moved)
	}
}

// stop ends the wait of the timer, if it runs.
func (c *cursors) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// remind makes the writer store the waiting cursors. It only queues an op, and does not wait.
func (db *DB) remind() {
	_ = db.records.File.Push(db.cursors.overdue()) // an error says that the file is closed: then Close stores the cursors
}

// overdue returns an op after which the cursors that wait are stored even if nothing else is.
func (c *cursors) overdue() *boltfile.Op {
	return &boltfile.Op{Run: func(boltfile.Batch) error {
		c.due = true
		return nil
	}}
}

// setCursor moves the cursor of b. With now, this transaction stores the cursor; without, it does so only if it stores
// anything else.
func (t *tx) setCursor(b relay.Bot, cursor []byte, now bool) {
	if cursor == nil {
		return
	}
	k := botKey(b)
	has, ok := t.cursors[string(k)]
	if !ok {
		has, ok = t.waiting[string(k)]
	}
	stored := t.isStored(k, cursor)
	if stored && !ok || ok && bytes.Equal(has, cursor) && !now {
		return
	}
	if t.cursors == nil {
		t.cursors = make(map[string][]byte)
	}
	t.cursors[string(k)] = bytes.Clone(cursor)
	if now && !stored {
		t.Changes++
	}
}

// isStored reports whether cursor is what is on disk under k.
func (t *tx) isStored(k, cursor []byte) bool {
	has, ok := t.db.cursors.stored[string(k)]
	return ok && bytes.Equal(has, cursor)
}

// takeCursors stores the waiting cursors, and those that this transaction moves, except where the disk has the same.
func (t *tx) takeCursors() error {
	put := func(name string, cursor []byte) error {
		k := []byte(name)
		if t.isStored(k, cursor) {
			return nil
		}
		return t.PutSealed(BucketCursors, k, boltfile.Seal(k, cursor))
	}
	for name, cursor := range t.waiting {
		if _, moved := t.cursors[name]; moved {
			continue
		}
		if err := put(name, cursor); err != nil {
			return err
		}
	}
	for name, cursor := range t.cursors {
		if err := put(name, cursor); err != nil {
			return err
		}
	}
	return nil
}

// Cursor returns how far the bot's platform has been confirmed, in the platform's own form; nil if nothing was accepted
// yet. It may be ahead of the disk, by events that stored nothing else.
func (db *DB) Cursor(ctx context.Context, b relay.Bot) ([]byte, error) {
	k := botKey(b)
	if cursor, ok := db.cursors.get(k); ok {
		return cursor, nil
	}
	return table.Get(ctx, db.records, fmt.Sprintf("cursor of %s", b), func(t *bolt.Tx) ([]byte, error) { return bytesAt(t, BucketCursors, k) })
}
