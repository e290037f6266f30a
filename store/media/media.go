// Package media has the record of each file that came in an event or that a gateway sent: who may read it, its state,
// and which instances still need it, because an entry or a waiting answer names it. relay/media keeps the bytes.
//
// The record of a file from an event is made in the transaction that appends the first entry that names the file, and
// marked as freed in the transaction that removes the last such entry from its lane. relay/media deletes it an hour
// later.
package media

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of files: media id -> Record.
const Bucket = "media"

// recordSize is about how large a record is on disk.
const recordSize = 1 << 10

// Record is one file.
type Record struct {
	relay.Attachment
	Bot   relay.Bot     `json:"bot,omitzero"`    // the bot through which it came; zero: a gateway sent it
	Event relay.EventID `json:"event,omitempty"` // the event that it came in
	Place int           `json:"place,omitempty"` // among the event's files
	// For are the instances that may read the file. Needed are the instances with an entry that names it, or with a
	// waiting answer that sends it (Hold).
	For    []relay.InstanceID `json:"for,omitempty"`
	Needed []relay.InstanceID `json:"needed,omitempty"`
	State  relay.MediaState   `json:"state"`
	Why    string             `json:"why,omitempty"` // as relay.Held.Why
	Facts  relay.FileFacts    `json:"facts,omitzero"`
	Sum    uint32             `json:"sum,omitempty"` // CRC-32C of its bytes
	At     time.Time          `json:"at"`
	Freed  time.Time          `json:"freed,omitzero"` // since when no instance needs it; zero: one does
}

// Uploaded reports whether a gateway sent the file.
func (r Record) Uploaded() bool { return r.Bot == relay.Bot{} }

// Key returns the key of the file's record.
func Key(id relay.MediaID) []byte { return table.Key(id) }

// Records are those of all files. Its methods may be called from any goroutine.
type Records struct {
	db *table.DB

	mu    sync.Mutex // guards the field below
	taken map[relay.InstanceID]int
}

// New returns the records of db.
func New(db *table.DB) *Records { return &Records{db: db, taken: make(map[relay.InstanceID]int)} }

// List lists all records but damaged ones, which were named when the file was opened.
func (rs *Records) List(ctx context.Context) ([]Record, error) {
	return table.Get(ctx, rs.db, "files", func(t *bolt.Tx) ([]Record, error) { return table.Readable[Record](t, Bucket), nil })
}

// Get returns one record; ok is false if there is none.
func (rs *Records) Get(ctx context.Context, id relay.MediaID) (r Record, ok bool, err error) {
	return table.Find[Record](ctx, rs.db, "file", Bucket, Key(id))
}

// Add stores the record of a file that a gateway sent. ErrFull: nothing is stored until something is deleted.
func (rs *Records) Add(ctx context.Context, r Record) error {
	return rs.db.Change(ctx, "file", func(w *table.Writer) error { return w.Put(Bucket, Key(r.ID), r) }, recordSize)
}

// Change calls to for each of the records that exists and is undamaged, and stores the result; it deletes those for
// which to returns false. It is one transaction, which may call to more than once.
func (rs *Records) Change(ctx context.Context, to func(*Record) bool, ids ...relay.MediaID) error {
	return rs.db.Change(ctx, "change files", func(w *table.Writer) error {
		for _, id := range ids {
			r, ok, err := table.Load[Record](w.Tx, Bucket, Key(id))
			if err != nil || !ok {
				continue
			}
			if to(&r) {
				err = w.PutChanged(Bucket, Key(id), r)
			} else {
				err = w.Delete(Bucket, Key(id))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Taken returns how many held files there were in the entries that i has acknowledged since the file was opened.
func (rs *Records) Taken(i relay.InstanceID) int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.taken[i]
}

// Took adds n to the number that Taken returns for i.
func (rs *Records) Took(i relay.InstanceID, n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.taken[i] += n
}

// Mentions reports whether a stored entry may name files. An entry for which it returns false need not be decoded.
func Mentions(stored []byte) bool { return bytes.Contains(stored, []byte(`"files":[`)) }

// Want records that an entry of i names the files of ev. A file whose bytes are not held becomes one that waits to be
// fetched, even if a former attempt failed.
func Want(w *table.Writer, i relay.InstanceID, ev relay.Event, now time.Time) error {
	for n, a := range ev.Attachments {
		if a.ID == "" { // nobody keeps files
			continue
		}
		r, ok, err := table.Load[Record](w.Tx, Bucket, Key(a.ID))
		if err != nil || !ok { // a damaged record is made anew
			r = Record{Attachment: a, Bot: ev.Bot, Event: ev.ID, Place: n, At: now}
		}
		if r.State != relay.MediaHeld {
			r.State, r.Why = relay.MediaWaiting, ""
		}
		r.For, r.Needed, r.Freed = with(r.For, i), with(r.Needed, i), time.Time{}
		if err := w.PutChanged(Bucket, Key(a.ID), r); err != nil {
			return err
		}
	}
	return nil
}

// Release records that an entry of i that named the files has left its lane. held is how many of these files have their
// bytes held.
func Release(w *table.Writer, i relay.InstanceID, files []relay.Attachment, now time.Time) (held int, err error) {
	for _, a := range files {
		r, ok, err := table.Load[Record](w.Tx, Bucket, Key(a.ID))
		if err != nil || !ok { // a damaged record is named when the database is opened
			continue
		}
		if r.State == relay.MediaHeld {
			held++
		}
		r.free(i, now)
		if err := w.PutChanged(Bucket, Key(a.ID), r); err != nil {
			return held, err
		}
	}
	return held, nil
}

// free notes that i does not need the file any more, and since when no instance does.
func (r *Record) free(i relay.InstanceID, now time.Time) {
	if r.Needed = without(r.Needed, i); len(r.Needed) == 0 && r.Freed.IsZero() {
		r.Freed = now
	}
}

// Hold makes i need a file that it sent and that waits to be sent on, until LetGo. It returns an error if the file does
// not exist.
func Hold(w *table.Writer, i relay.InstanceID, id relay.MediaID) error {
	r, err := table.Must[Record](w.Tx, Bucket, Key(id), "file")
	if err != nil {
		return err
	}
	r.Needed, r.Freed = with(r.Needed, i), time.Time{}
	return w.PutChanged(Bucket, Key(id), r)
}

// LetGo ends Hold: i no longer needs the file.
func LetGo(w *table.Writer, i relay.InstanceID, id relay.MediaID, now time.Time) error {
	_, err := Release(w, i, []relay.Attachment{{ID: id}}, now)
	return err
}

// Strip makes i neither need nor read any file: the next instance with its name must not read them.
func Strip(w *table.Writer, i relay.InstanceID, now time.Time) error {
	for _, k := range table.KeysUnder(w.Tx, Bucket, nil) {
		r, ok, err := table.Load[Record](w.Tx, Bucket, k)
		if err != nil || !ok || !slices.Contains(r.For, i) {
			continue
		}
		r.For = without(r.For, i)
		r.free(i, now)
		if err := w.Put(Bucket, k, r); err != nil {
			return err
		}
	}
	return nil
}

// Needing returns the instances that need a file, according to the records.
func Needing(t *bolt.Tx) (out []relay.InstanceID) {
	for _, r := range table.Readable[Record](t, Bucket) {
		for _, i := range r.Needed {
			out = with(out, i)
		}
	}
	return out
}

// Recount makes the records agree with the entries of i: events are the events with files in these entries, and held
// are the files that i needs for its waiting answers.
func Recount(w *table.Writer, i relay.InstanceID, events []relay.Event, held []relay.MediaID, now time.Time) error {
	named := make(map[string]bool)
	for _, id := range held {
		named[string(Key(id))] = true
	}
	for _, ev := range events {
		for _, a := range ev.Attachments {
			named[string(Key(a.ID))] = true
		}
		if err := Want(w, i, ev, now); err != nil {
			return err
		}
	}
	for _, k := range table.KeysUnder(w.Tx, Bucket, nil) {
		r, ok, err := table.Load[Record](w.Tx, Bucket, k)
		if err != nil || !ok || named[string(k)] || !slices.Contains(r.Needed, i) {
			continue
		}
		r.free(i, now)
		if err := w.Put(Bucket, k, r); err != nil {
			return err
		}
	}
	return nil
}

func with(all []relay.InstanceID, i relay.InstanceID) []relay.InstanceID {
	if slices.Contains(all, i) {
		return all
	}
	return append(all, i)
}

func without(all []relay.InstanceID, i relay.InstanceID) []relay.InstanceID {
	return slices.DeleteFunc(all, func(x relay.InstanceID) bool { return x == i })
}
