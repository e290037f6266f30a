// Package store keeps the database's records in a boltfile: who is enrolled, who may see and do what, and which
// deliveries wait. It makes no decisions: relay/gate decides who gets an event. It does not know the format of the
// wire.
//
// Invariants, each held by the test that names its number:
//
//  1. A write returns nil only after its data is synced to the disk, and a read returns only data that is synced. The
//     exception is a cursor with which nothing else is stored (cursor.go): it reaches the disk within a minute, and a
//     cursor on disk never points past an event that is not on disk.
//  2. Every caller gets an answer, whatever happens to the disk. When the disk is full, writes are refused until it has
//     room again. After any other failed commit, such as a failed sync, or after a page that cannot be read, nothing is
//     accepted any more.
//  3. A write is carried out whole or not at all, also when it shares its transaction with other writes.
//  4. A buffer id never names two events: sequence numbers only grow, and the epoch changes when
//     an instance is enrolled again, or a backup is restored.
//  5. An entry leaves a lane only by being dropped, or by moving to the dead letters or, when
//     damaged, to the quarantine.
//  6. Entries of a lane are handed out in the order in which they were accepted. Lanes (order.go), seen marks and
//     records (recent.go) are also kept in memory, as of the newest commit. That memory is bounded, except for the
//     lanes' entries.
//  7. An event is stored once per bot, however often it is handed in within three days.
//  8. A file or record with content that was not written there is refused or set aside, and named (damage.go); it is
//     never replaced or skipped in silence. All records are checked when the file is opened and before it is copied.
//  9. While nothing happens, nothing is written. Events that are dropped cause at most one write a minute.
//  10. An audited change and its row in the audit list are stored together, or neither is stored.
//  11. An enrollment token enrolls one gateway: it is used up in the transaction that enrolls.
//  12. All routes of one key belong to one tenant.
//  13. Only bbolt changes a file in place, with one exception: the checksum of a meta page whose commit is incomplete.
//     Compacting, restoring and salvaging write another file, verify it, and give it the name of the first.
//
// No transaction is open while a caller runs, and no returned value points into the file.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// DB is an open database. Its methods may be called from any goroutine. Reads see committed data; a write returns after
// the sync of the group it was committed with. A context that ends before a write has begun prevents the write; one
// that ends later has no effect.
//
// A write with an audit row stores the row in the same transaction as its change, and stores no row if nothing changes.
// Changes that nobody decided, such as when a gateway was last seen, have a nil row.
type DB struct {
	// Set once, by Open.
	Lanes        *Lanes
	Codes        *Codes
	Routes       *Routes
	Commands     *Commands
	Notices      *Notices
	People       *People
	Labels       *Labels
	Pending      *Pendings
	Callers      *Callers
	Authors      *authors.Log
	Capabilities *capability.Records
	Prompts      *prompt.Records
	Media        *media.Records
	Outbox       *outbox.Records
	Seen         *dedupe.Marks
	Audit        *audit.Log
	History      *history.Records

	path    string
	run     uint64 // random: marks what this run of the program accepted
	records *table.DB
	limits  Limits
	log     *slog.Logger
	damaged int // records that were set aside

	// cursors are written along with other commits, like the notes of Authors.
	cursors cursors

	order   *order // made by Open
	recents recents

	deadDropped atomic.Uint64                   // dead letters dropped because there were too many, since Open
	died        [len(deadReasons)]atomic.Uint64 // dead letters made since Open, in the order of deadReasons
}

// Open opens the database at path. If there is none, it makes one under another name and then gives it that path. It
// waits LockTimeout for another process to release the file, then returns ErrLocked. It returns ErrDamaged, with
// advice, for a file that is not a sound database of ours, and an error for a database of a newer version; it changes
// neither file. If the damage leaves the other records usable, Open logs it, sets the damaged records aside, and counts
// them in Stats. The caller must Close the DB.
func Open(path string, o Options) (*DB, error) {
	o = o.withDefaults()
	db := &DB{path: path, run: newEpoch(), limits: o.Limits, log: o.Log}
	r := &table.DB{Now: func() time.Time { return o.Now().UTC() }}
	db.records = r
	db.People, db.Labels = &People{db: db}, &Labels{db}
	db.Lanes, db.Codes, db.Routes, db.Commands, db.Pending = &Lanes{db}, &Codes{db}, &Routes{db}, &Commands{db}, &Pendings{db}
	db.Notices = &Notices{db}
	db.Callers = &Callers{callers.New(r), db}
	db.Authors, db.Capabilities, db.Prompts, db.Media = authors.New(r), capability.New(r), prompt.New(r), media.New(r)
	db.Seen, db.Audit, db.History, db.Outbox = dedupe.New(r, o.Log), audit.New(r), history.New(r), outbox.New(r)
	fo := o.File()
	fo.Format.Prepare, fo.Format.Begin = db.prepare, db.begin
	file, err := boltfile.Open(path, fo)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	r.File = file
	return db, nil
}

// prepare migrates the file to this version, and sets damaged records aside.
func (db *DB) prepare(b *bolt.DB, bad []boltfile.Damaged) error {
	if err := Refusal(bad); err != nil {
		return boltfile.Advised(err)
	}
	if err := migrate(b, migrations()); err != nil {
		return err
	}
	if err := setAside(b, bad, db.now(), db.log); err != nil {
		return err
	}
	db.damaged = len(bad)
	return b.View(func(t *bolt.Tx) error {
		db.Authors.Load(t)
		db.Seen.Load(t)
		db.History.Load(t)
		db.cursors.load(t)
		var err error
		db.order, err = orderOf(t)
		return err
	})
}

// now returns the time, in UTC.
func (db *DB) now() time.Time { return db.records.Now() }

// Close finishes the writes that wait, together with the cursors and everything else that was waiting for a commit. It
// refuses new writes and releases the file.
func (db *DB) Close() error {
	db.cursors.stop()
	err := db.records.File.Close(db.cursors.overdue())
	switch {
	case err == nil:
		return nil
	case db.records.File.Err() != nil || errors.Is(err, ErrNoSpace) || errors.Is(err, ErrFull):
		db.log.Warn("cursors, and who sent which message, were not stored at the stop; what platforms repeat is recognised", "err", err)
		return nil
	}
	return fmt.Errorf("close database %s: %w", db.path, err)
}

// Failed returns a channel that is closed when a commit fails or a page cannot be read. Nothing is accepted after that,
// and the process must end.
func (db *DB) Failed() <-chan struct{} { return db.records.File.Failed() }

// Probe reports whether the writer takes writes. It returns nil, ErrFull, ErrNoSpace, ErrFailed with the first cause,
// or an error if the writer has not answered within five seconds. It commits nothing.
func (db *DB) Probe() error { return db.records.File.Probe() }

// First returns the first element of a list; ok is false if the list is empty.
func First[T any](all []T, err error) (first T, ok bool, _ error) { return table.First(all, err) }

// Only is First for a list of one record, which is there if err is nil.
func Only[T any](all []T, err error) (T, error) {
	one, _, err := First(all, err)
	return one, err
}

// View calls fn with a context whose reads all see one transaction. fn must neither write nor wait for others, and its
// context must not outlive it.
func (db *DB) View(ctx context.Context, fn func(context.Context) error) error {
	return db.records.View(ctx, fn)
}

// Stats are counters since Open, and the size of the file.
type Stats struct {
	Commits, Ops uint64
	// Commit is the number of the newest commit: while it stays the same, so does the content. It starts anew after a
	// compaction.
	Commit      uint64
	FileBytes   int64                 // as the file system says
	Died        map[DeadReason]uint64 // messages that became dead letters, by reason; every reason is a key
	DeadDropped uint64                // dead letters dropped because there were too many
	BadMarks    uint64                // damaged seen marks that were found, and ignored
	// FellBack: the newest commit was unreadable when the file was opened, and the one before it is used.
	FellBack bool
	Damaged  int // records that were found damaged when the file was opened, named in the log and set aside
	// Squeezed: when the file was opened, the values that Reseal had replaced were removed from its free pages.
	// Leftover: they could not be removed.
	Squeezed, Leftover bool
}

// Stats returns the database's counters, for status and metrics.
func (db *DB) Stats() Stats {
	f := db.records.File.Stats()
	s := Stats{
		Commits: f.Commits, Ops: f.Ops, Commit: db.records.File.Committed(), FileBytes: f.FileBytes, FellBack: f.FellBack,
		Squeezed: f.Squeezed, Leftover: f.Leftover,
		DeadDropped: db.deadDropped.Load(), BadMarks: db.Seen.Damaged(),
		Damaged: db.damaged, Died: make(map[DeadReason]uint64, len(deadReasons)),
	}
	for n, why := range deadReasons {
		s.Died[why] = db.died[n].Load()
	}
	return s
}
