// Package store is the database's records, in a file of boltfile's: who is enrolled, who may see and do
// what, and what waits to be delivered. It decides nothing: who gets an event is relay/gate's to say, and
// what the wire looks like is not known here.
//
// Invariants, each held by the test that names its number:
//
//  1. A write returns nil only after its data is synced to the disk, and a read sees nothing
//     that is not. A cursor with which nothing else is stored is the exception (cursor.go): it is on
//     disk within a minute, and there never past an event that is not.
//  2. Every caller gets an answer, whatever becomes of the disk. A full one is refused and waited
//     for; after any other failed commit, a sync's above all, or a page that the disk does not
//     give back, nothing is accepted any more.
//  3. A write is carried out whole or not at all, also when it shares its transaction with others.
//  4. A buffer id never names two events: sequence numbers only grow, and the epoch changes when
//     an instance is enrolled again, or a backup is restored.
//  5. An entry leaves a lane only by being dropped, or by moving to the dead letters or, when
//     damaged, to the quarantine.
//  6. Entries of a lane are handed out in the order they were accepted. What is remembered of lanes (order.go), of seen
//     marks and of records (recent.go) is what the newest commit has, and bounded but for the lanes' entries.
//  7. An event is stored once per bot, however often it is handed in within three days.
//  8. A file or record that is not what was written is refused, or set aside, and named (damage.go); it is
//     never replaced or skipped in silence. All records are looked at whenever the file is opened
//     and before it is copied.
//  9. Idle, nothing is written, and for events that are dropped, once a minute at most.
//  10. A change that is audited and its row in the audit list are stored together, or neither is.
//  11. An enrollment token enrolls one gateway: it is used up in the transaction that enrolls.
//  12. All routes of one key belong to one tenant.
//  13. A file that is not changed by bbolt is not changed in place, but for the checksum of a meta page whose
//     commit is not whole: what compacts, restores or salvages it makes another one, verified, which takes its name.
//
// No transaction is open while a caller runs, and nothing returned points into the file.
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

// DB is an open database. All methods: any goroutine. Reads see what was committed; writes
// return after the sync of the group they were committed with. A context that ends before a
// write has begun prevents it; one that ends later is not looked at any more.
//
// A write that takes a row of the audit list leaves the row in the transaction that changes something, and in none
// that changes nothing. A nil row is for what nobody decided, such as when a gateway was last seen.
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
	run     uint64 // random: tells what this run of the program accepted from what another one did
	records *table.DB
	limits  Limits
	log     *slog.Logger
	damaged int // records that were set aside

	// Ride along with the commits, as notes of Authors do.
	cursors cursors

	order   *order // made by Open
	recents recents

	deadDropped atomic.Uint64
	died        [len(deadReasons)]atomic.Uint64
}

// Open opens the database at path, or creates it, which is done aside and put in place whole.
// It waits LockTimeout for another process to let go of the file, then ErrLocked. A file that is
// there but is not a sound database of ours is ErrDamaged, and the error says what to do; one of a
// newer version is an error; neither is touched. Damage that does not keep the rest from being used is named
// in the log, set aside, and counted in Stats. The caller must Close what is returned.
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

// prepare brings the file to this version, and sets aside what is damaged in it.
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

// now is the time, in UTC.
func (db *DB) now() time.Time { return db.records.Now() }

// Close finishes the writes that wait, with the cursors and whatever else waits for a commit to ride with,
// refuses new ones, and lets go of the file.
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

// Failed is closed when a commit failed, or a page could not be read: nothing more is accepted, and the process must end.
func (db *DB) Failed() <-chan struct{} { return db.records.File.Failed() }

// Probe reports whether the writer takes writes: nil, ErrFull, ErrNoSpace, ErrFailed wrapping the first cause, or that it has not
// answered for five seconds. It commits nothing.
func (db *DB) Probe() error { return db.records.File.Probe() }

// First is the first of what was listed; ok is false when there is none.
func First[T any](all []T, err error) (first T, ok bool, _ error) { return table.First(all, err) }

// Only is First for the one record that was named, which is there if err is nil.
func Only[T any](all []T, err error) (T, error) {
	one, _, err := First(all, err)
	return one, err
}

// View has all that fn reads with its context come from one read transaction. fn must neither write nor wait
// for others, and the context must not outlive it.
func (db *DB) View(ctx context.Context, fn func(context.Context) error) error {
	return db.records.View(ctx, fn)
}

// Stats are counters since Open, and the size of the file.
type Stats struct {
	Commits, Ops uint64
	// Commit is the number of the newest commit: as long as it stays the same, so does the content. It starts
	// anew in a file that was compacted.
	Commit      uint64
	FileBytes   int64                 // as the file system says
	Died        map[DeadReason]uint64 // messages that became dead letters, by every reason there is
	DeadDropped uint64                // dead letters dropped because there were too many
	BadMarks    uint64                // damaged seen marks met; none was believed
	// FellBack: when it was opened the newest commit was unreadable, and the one before it is used.
	FellBack bool
	Damaged  int // records that were found damaged when it was opened, named in the log and set aside
	// Squeezed: when it was opened, what Reseal had replaced was removed from its free pages. Leftover: it could not be.
	Squeezed, Leftover bool
}

// Stats is how the database does, for status and metrics.
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
