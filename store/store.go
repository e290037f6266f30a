// Package store is the database: one bbolt file with a single writer and group commit. It keeps
// who is enrolled, who may see and do what, and what waits to be delivered. It decides nothing:
// who gets an event is relay/gate's to say, and what the wire looks like is not known here.
//
// Invariants, each held by the test that names its number:
//
//  1. A write returns nil only after its data is synced to the disk, and a read sees nothing
//     that is not.
//  2. Every caller gets an answer, whatever becomes of the disk; after a failed commit nothing
//     is accepted any more.
//  3. A write is carried out whole or not at all, also when it shares its transaction with others.
//  4. A buffer id never names two events: sequence numbers only grow, and the epoch changes when
//     an instance is enrolled again.
//  5. An entry leaves a lane only by being dropped, or by moving to the dead letters or, when
//     damaged, to the quarantine.
//  6. Entries of a lane are handed out in the order they were accepted.
//  7. An event is stored once per bot, however often it is handed in within three days.
//  8. A file or record that is not what was written is refused; it is never replaced or skipped
//     in silence.
//  9. Idle, nothing is written.
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
}

// Open opens the database at path, or creates it, which is done aside and put in place whole.
// It waits LockTimeout for another process to let go of the file, then ErrLocked. A file that is
// there but is not a sound database of ours is ErrDamaged, one of a newer version is an error;
// neither is touched. The caller must Close what is returned.
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
	if err := verify(path, o); err != nil {
		return nil, err
	}
	b, err := openBolt(path, o)
	if err != nil {
		return nil, err
	}
	w, err := prepare(b, o)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	removeLeftovers(path, o.Log)
	now := func() time.Time { return o.Now().UTC() }
	return &DB{path: path, bolt: b, w: w, now: now, limits: o.Limits, log: o.Log}, nil
}

// prepare brings an open file to this version and starts its writer.
func prepare(b *bolt.DB, o Options) (*writer, error) {
	if err := migrate(b, migrations()); err != nil {
		return nil, err
	}
	// What a process that was killed wrote last may be in memory only, and we are about to read it.
	if err := b.Sync(); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return startWriter(b, o.MaxSize)
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
		PageSize:        4096, // the host's may be 16 KiB, which quadruples what a message costs
		MaxSize:         int(o.MaxSize),
		InitialMmapSize: initialMap(),
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

// Failed is closed when a commit failed: nothing more is accepted, and the process must end.
func (db *DB) Failed() <-chan struct{} { return db.w.failed }

// Err is nil, or ErrFailed wrapping the first commit error.
func (db *DB) Err() error { return db.w.err() }

// Probe reports whether the writer takes writes: nil, ErrFull, ErrFailed, or that it has not
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
	return db.w.queue.do(ctx, &op{fn: fn})
}

// Stats are counters since Open, and the size of the file.
type Stats struct {
	Commits, Ops uint64
	FileBytes    int64  // as the file system says
	DeadDropped  uint64 // dead letters dropped because there were too many
}

// Stats is how the database does, for status and metrics.
func (db *DB) Stats() Stats {
	s := Stats{Commits: db.w.commits.Load(), Ops: db.w.ops.Load(), DeadDropped: db.w.deadDropped.Load()}
	if info, err := os.Stat(db.path); err == nil {
		s.FileBytes = info.Size()
	}
	return s
}
