// Package store is the database: one bbolt file with a single writer and group commit. It keeps
// who is enrolled, who may see and do what, and what waits to be delivered. It decides nothing:
// who gets an event is relay/gate's to say, and what the wire looks like is not known here.
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
//  6. Entries of a lane are handed out in the order they were accepted.
//  7. An event is stored once per bot, however often it is handed in within three days.
//  8. A file or record that is not what was written is refused, or set aside or made anew from
//     others, and named; it is never replaced or skipped in silence. All records are looked at whenever the file is opened
//     and before it is copied.
//  9. Idle, nothing is written, and for events that are dropped, once a minute at most.
//  10. A change that is audited and its row in the audit list are stored together, or neither is.
//  11. An enrollment token enrolls one gateway: it is used up in the transaction that enrolls.
//  12. All routes of one key belong to one tenant.
//  13. A file that is not changed by bbolt is not changed in place: what mends, compacts or
//     restores it makes another one, verified, which takes its name.
//
// No transaction is open while a caller runs, and nothing returned points into the file.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// errClosed is what every method returns after Close.
var errClosed = fmt.Errorf("database: %w", os.ErrClosed)

// probeTime is how long Probe waits for the writer.
const probeTime = 5 * time.Second

// DB is an open database. All methods: any goroutine. Reads see what was committed; writes
// return after the sync of the group they were committed with. A context that ends before a
// write has begun prevents it; one that ends later is not looked at any more.
type DB struct {
	// Set once, by Open.
	path   string
	bolt   *bolt.DB
	w      *writer
	now    func() time.Time // in UTC
	limits Limits
	log    *slog.Logger

	fellBack bool // the newest commit was unreadable
	damaged  int  // records and lanes, when it was opened

	badMarks atomic.Uint64 // damaged seen marks met
}

// Open opens the database at path, or creates it, which is done aside and put in place whole.
// It waits LockTimeout for another process to let go of the file, then ErrLocked. A file that is
// there but is not a sound database of ours is ErrDamaged, one of a newer version is an error;
// neither is touched. Damage that does not keep the rest from being used is named in the log, and
// counted in Stats. The caller must Close what is returned.
func Open(path string, o Options) (*DB, error) {
	o = o.withDefaults()
	db, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return db, nil
}

func open(path string, o Options) (*DB, error) {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, o); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	case err != nil:
		return nil, err
	}
	for {
		got, err := verify(path, o)
		if err != nil {
			return nil, err
		}
		b, f, err := lock(path, o)
		if err != nil {
			return nil, err
		}
		replaced, err := improve(path, b, f, got, o)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		if replaced {
			if err := b.Close(); err != nil {
				return nil, err
			}
			o.Compact = false // done
			continue
		}
		db := &DB{path: path, bolt: b, limits: o.Limits, log: o.Log, fellBack: got.lost}
		db.now = func() time.Time { return o.Now().UTC() }
		if err := db.start(f, got, o); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		removeLeftovers(path, o.Log)
		return db, nil
	}
}

// lock opens the file at path for this process alone. f is what bbolt has open.
func lock(path string, o Options) (b *bolt.DB, f *os.File, err error) {
	openFile := o.OpenFile
	o.OpenFile = func(path string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		f, err = openFile(path, flag, mode)
		return f, err
	}
	if b, err = openBolt(path, o); err != nil {
		return nil, nil, err
	}
	if !holds(f, path) {
		return nil, nil, errors.Join(fmt.Errorf("%w, and has just replaced it; try again", ErrLocked), b.Close())
	}
	return b, f, nil
}

// improve puts a better copy of the file in the place of path, if there is one to be had: then
// everything begins again with that.
func improve(path string, b *bolt.DB, f *os.File, got found, o Options) (replaced bool, err error) {
	if got.mended != nil {
		kept, err := mendMeta(path, f, got.metas, o)
		if err != nil {
			return false, fmt.Errorf("the newest commit can be recovered, but not now: %w", err)
		}
		o.Log.Error("one flipped bit had made the newest commit unreadable; it was recovered", "damaged file", kept)
		return true, nil
	}
	switch {
	case got.lost:
		o.Log.Error("the newest commit is lost", "err", errFellBack)
	case got.broken:
		o.Log.Warn("the meta page of the last but one commit is damaged; nothing is lost, and the next commit replaces it")
	}
	size, worth := bloated(b, f)
	if !o.Compact || !worth {
		return false, nil
	}
	if err := compact(path, b, got, o); err != nil {
		o.Log.Warn("the database was not compacted; it is used as it is", "err", err)
		return false, nil
	}
	o.Log.Info("the database was compacted", "bytes before", size)
	return true, nil
}

// start brings the open file to this version, deals with what is damaged in it, and starts the writer.
func (db *DB) start(f *os.File, got found, o Options) (err error) {
	if err := migrate(db.bolt, migrations()); err != nil {
		return err
	}
	if db.damaged, err = repair(db.bolt, got, db.now(), o.Log); err != nil {
		return err
	}
	db.damaged += compareDigest(got, o.Log)
	if got.expected == nil || db.damaged > 0 {
		if err := db.bolt.Update(recount); err != nil {
			return fmt.Errorf("recount: %w", err)
		}
	}
	// What a process that was killed wrote last may be in memory only, and we are about to read it.
	if err := db.bolt.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	db.w, err = startWriter(db.bolt, f, o)
	return err
}

// openBolt opens the file with the settings the store relies on. bbolt panics on some files it
// cannot read.
func openBolt(path string, o Options) (b *bolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v; %s", ErrDamaged, p, remedy)
		}
	}()
	b, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         o.LockTimeout,
		NoFreelistSync:  true, // a freelist on disk costs more with every free page
		FreelistType:    bolt.FreelistMapType,
		PageSize:        pageSize,
		MaxSize:         int(o.MaxSize),
		InitialMmapSize: o.initialMap(),
		OpenFile:        o.OpenFile,
	})
	if err != nil {
		return nil, boltError(err)
	}
	b.AllocSize = o.growStep()
	return b, nil
}

// boltError says in our words why bbolt refuses a file.
func boltError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w; stop it, or give this one a data folder of its own", ErrLocked)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, remedy)
	}
	return err
}

// Close finishes the writes that wait, refuses new ones, and lets go of the file.
func (db *DB) Close() error {
	db.w.stop(errClosed)
	if db.w.broken.Load() {
		// Closing would wait for a transaction that nobody can end. The file's lock goes with the process.
		return nil
	}
	if err := db.bolt.Close(); err != nil {
		return fmt.Errorf("close database %s: %w", db.path, err)
	}
	return nil
}

// Failed is closed when a commit failed, or a page could not be read: nothing more is accepted, and the process must end.
func (db *DB) Failed() <-chan struct{} { return db.w.failed }

// Err is nil, or ErrFailed wrapping the first cause.
func (db *DB) Err() error { return db.w.err() }

// Probe reports whether the writer takes writes: nil, ErrFull, ErrNoSpace, ErrFailed, or that it has not
// answered for five seconds. It commits nothing.
func (db *DB) Probe() error {
	o := &op{fn: func(*tx) error { return nil }, grows: true, done: make(chan error, 1)}
	if err := db.w.queue.push(o); err != nil {
		return err
	}
	t := time.NewTimer(probeTime)
	defer t.Stop()
	select {
	case err := <-o.done:
		return err
	case <-t.C:
		o.state.CompareAndSwap(opQueued, opWithdrawn)
		return fmt.Errorf("the disk has not answered for %v", probeTime)
	}
}

// write runs fn in the next transaction. See op.fn for what fn must keep to.
func (db *DB) write(ctx context.Context, fn func(*tx) error) error {
	return db.w.queue.do(ctx, &op{fn: fn, row: auditRow(ctx, db.now)})
}

// Stats are counters since Open, and the size of the file.
type Stats struct {
	Commits, Ops uint64
	FileBytes    int64                 // as the file system says
	Died         map[DeadReason]uint64 // messages that became dead letters, by every reason there is
	DeadDropped  uint64                // dead letters dropped because there were too many
	BadMarks     uint64                // damaged seen marks met; none was believed
	// FellBack: when it was opened the newest commit was unreadable, and the one before it is used.
	FellBack bool
	Damaged  int // records and lanes that were found damaged when it was opened, and named in the log
}

// Stats is how the database does, for status and metrics.
func (db *DB) Stats() Stats {
	s := Stats{
		Commits: db.w.commits.Load(), Ops: db.w.ops.Load(), DeadDropped: db.w.deadDropped.Load(), BadMarks: db.badMarks.Load(),
		FellBack: db.fellBack, Damaged: db.damaged, Died: make(map[DeadReason]uint64, len(deadReasons)),
	}
	for n, why := range deadReasons {
		s.Died[why] = db.w.died[n].Load()
	}
	if info, err := os.Stat(db.path); err == nil {
		s.FileBytes = info.Size()
	}
	return s
}
