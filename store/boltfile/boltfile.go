// Package boltfile is a checked bbolt file with one writer: a reader gets what was written, or hears of damage, and
// who writes gets an answer after the sync. The Format says what is to be known of a record.
//
// Every value rests in an envelope with a checksum over its key (envelope.go), and a digest over all records
// is kept with them (digest.go). Each start reads the whole file before bbolt does (verify.go).
//
// A commit is one sync: bbolt writes the pages and the meta page, then the file is synced once, then the
// answers go out. This is sound because a commit writes over no page of the commit before it, which was
// synced before this one began. A power cut leaves any part of an unsynced commit, of which nobody was told. The
// walk at the next start finds that: by a page that is not there, a checksum or, where older pages stand in the
// place of new ones, the digest. Then the commit before is used, and that is said (FellBack).
//
// All changes at run time pass Writer.change, and are committed by File.store alone.
package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// PageSize is of a new file; the host's may be 16 KiB, which quadruples what a small record costs.
const PageSize = 4096

// probeTime is how long Probe waits for the writer.
const probeTime = 5 * time.Second

// Options of a file. All are to be set, but BeforeSync and CommitLog.
type Options struct {
	MaxSize     int64         // in bytes; what grows is refused with ErrFull from four fifths of it on
	LockTimeout time.Duration // how long Open waits for another process to let go of the file
	Compact     bool          // makes Open shrink a file of more than 8 MiB, and twice its live data
	Now         func() time.Time
	Log         *slog.Logger
	// OpenFile opens the file. Tests make the disk fail with it.
	OpenFile func(path string, flag int, mode fs.FileMode) (*os.File, error)
	// BeforeSync, if set, is called when all of a commit is written and nothing of it synced. Tests cut
	// the power there.
	BeforeSync func()
	// CommitLog, if set, is where every commit is stored besides the file.
	CommitLog *Log
	Format    Format
}

// Format is what the owner of the records knows.
type Format struct {
	Schema uint32 // the version of the records that Prepare brings a file to; entries of a log name it
	// Fill makes an empty file a database.
	Fill func(*bolt.Tx) error
	// Prepare brings the file to the current version and deals with its damaged records, before anybody
	// else uses it. An error refuses the file.
	Prepare func(*bolt.DB, []Damaged) error
	// Begin is called for every transaction of the writer.
	Begin func(*Writer) Batch
}

// Batch is a transaction as those see it who write with it. All methods: the writer's goroutine.
type Batch interface {
	// Settle makes, when all ops have run, the changes that they share. spare: there is disk space for
	// what can wait.
	Settle(spare bool) error
	// Done is called when the transaction is over: stored, or not worth it. It is not called after an error.
	Done(stored bool)
}

// File is an open file. All methods: any goroutine.
type File struct {
	queue queue

	// Set once, by Open.
	path     string
	bolt     *bolt.DB
	file     *os.File // which bolt has open
	o        Options
	fellBack bool
	squeezed bool          // by Open
	leftover bool          // it is still to be squeezed
	failed   chan struct{} // closed by fail
	ended    chan struct{} // closed when the writer has returned

	// shown holds a token that whoever begins to read borrows, and the writer while it commits.
	shown chan struct{}

	// Written by the writer, read by any.
	synced  atomic.Int64 // id of the newest transaction known to be on disk
	commits atomic.Uint64
	ops     atomic.Uint64
	broken  atomic.Bool // a commit panicked

	// Set once, by fail.
	cause atomic.Pointer[error] // before failed is closed

	// The writer's own.
	digest   Digest // of the newest commit
	place    Place  // in the log
	lastOps  int
	lastTook time.Duration
	diskFull bool          // what grows is refused
	pause    time.Duration // before the disk is asked for space again
	timer    *time.Timer   // until then; nil when it was never full
	due      bool          // the pause is over
}

// Open opens the file at path, or creates it, which is done aside and put in place whole. ErrLocked:
// another process has it. ErrDamaged: it is no sound file of ours; then it is not touched. The caller
// must Close what is returned.
func Open(path string, o Options) (*File, error) {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, o); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	case err != nil:
		return nil, err
	}
	fellBack, improved, squeezed := false, false, false
	for {
		got, err := verify(path, o)
		if err != nil {
			return nil, err
		}
		fellBack = fellBack || got.FellBack
		b, f, err := lock(path, o)
		if err != nil {
			return nil, err
		}
		due := squeezeDue(b)
		if !improved && improve(path, b, f, got, due, o) {
			if err := b.Close(); err != nil {
				return nil, err
			}
			improved, squeezed = true, due
			continue
		}
		out := &File{
			queue: queue{wake: make(chan struct{}, 1)}, path: path, bolt: b, file: f, o: o, fellBack: fellBack, squeezed: squeezed, leftover: due && !squeezed,
			failed: make(chan struct{}), ended: make(chan struct{}), shown: make(chan struct{}, 1),
		}
		if err := out.start(got); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		if err := files.RemoveLeftovers(filepath.Dir(path), Leftovers(path)); err != nil {
			o.Log.Warn("an unfinished database stays", "err", err)
		}
		return out, nil
	}
}

// lock opens the file at path for this process alone. f is what bbolt has open.
func lock(path string, o Options) (b *bolt.DB, f *os.File, err error) {
	openFile := o.OpenFile
	o.OpenFile = func(path string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		f, err = openFile(path, flag, mode)
		return f, err
	}
	if b, err = OpenBolt(path, o); err != nil {
		return nil, nil, err
	}
	// Who waited for the lock may get it when another process has just put a new file in the place of this one.
	opened, err1 := f.Stat()
	named, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(opened, named) {
		return nil, nil, errors.Join(fmt.Errorf("%w, and has just replaced it; try again", ErrLocked), b.Close())
	}
	return b, f, nil
}

// start has the owner prepare the open file, and starts the writer.
func (f *File) start(got Found) error {
	// What a process that was killed wrote last may be in memory only, and we are about to build on it.
	if err := f.bolt.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := f.o.Format.Prepare(f.bolt, got.Bad); err != nil {
		return err
	}
	if f.squeezed {
		if err := Update(f.bolt, forgetSqueeze); err != nil {
			return err
		}
	}
	if split, err := f.isSplit(); err != nil || split || got.expected == nil {
		if err := errors.Join(err, Update(f.bolt, gather)); err != nil {
			return err
		}
	}
	err := f.bolt.View(func(t *bolt.Tx) (err error) {
		f.synced.Store(int64(t.ID()))
		f.digest, err = storedDigest(t)
		return err
	})
	if err != nil {
		return err
	}
	f.bolt.NoSync = true // from here on store syncs
	f.shown <- struct{}{}
	if f.o.CommitLog != nil {
		if err := f.enterLog(); err != nil {
			return err
		}
	}
	go f.run()
	return nil
}

// OpenBolt opens the file at path, which nobody else is to use and Adopt has found sound, with the settings
// everything here relies on. bbolt panics on some files it cannot read.
func OpenBolt(path string, o Options) (b *bolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v; %s", ErrDamaged, p, Remedy)
		}
	}()
	// A file that outgrows its mapping makes the writer wait for every reader, so for a whole backup. On a 64-bit
	// host the mapping has the largest size of the file, which costs no memory. On a 32-bit host addresses are scarce.
	mapped := int(o.MaxSize)
	if strconv.IntSize == 32 {
		mapped = 256 << 20
	}
	b, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         o.LockTimeout,
		NoFreelistSync:  true, // a freelist on disk costs more with every free page
		FreelistType:    bolt.FreelistMapType,
		PageSize:        PageSize,
		MaxSize:         int(o.MaxSize),
		InitialMmapSize: mapped,
		OpenFile:        o.OpenFile,
	})
	if err != nil {
		return nil, boltError(err)
	}
	b.AllocSize = int(min(max(o.MaxSize/64, 64<<10), 4<<20)) // the file grows by that, with one more sync each time
	return b, nil
}

// boltError says in our words why bbolt refuses a file.
func boltError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w; stop it, or give this one a data folder of its own", ErrLocked)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, Remedy)
	}
	return err
}

// Close finishes the writes that wait, and last behind them, refuses new ones, and lets go of the file.
func (f *File) Close(last *Op) error {
	f.queue.close(errClosed, last)
	<-f.ended
	var lastErr error
	if last != nil && last.done != nil {
		lastErr = last.Wait()
	}
	if f.broken.Load() {
		// Closing would wait for a transaction that nobody can end. The file's lock goes with the process.
		return nil
	}
	return errors.Join(lastErr, f.bolt.Close())
}

// Failed is closed when a commit failed, or a page could not be read: nothing more is accepted, and the process must end.
func (f *File) Failed() <-chan struct{} { return f.failed }

// Err is nil, or ErrFailed wrapping the first cause.
func (f *File) Err() error {
	if p := f.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Do runs o in the next transaction, and returns after the sync. When ctx ends before o has begun, o never will.
// Once o has begun its outcome is waited for, because it may be on disk.
func (f *File) Do(ctx context.Context, o *Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.Push(o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.state.CompareAndSwap(opQueued, opWithdrawn) {
			return ctx.Err()
		}
		return <-o.done
	}
}

// Push queues o for the next transaction, without waiting for it.
func (f *File) Push(o *Op) error { return f.queue.push(o) }

// Probe reports whether the writer takes writes: nil, ErrFull, ErrNoSpace, ErrFailed, or that it has not
// answered for five seconds. It commits nothing.
func (f *File) Probe() error {
	o := &Op{Run: func(Batch) error { return nil }, Grows: true}
	if err := f.Push(o); err != nil {
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

// Stats are counters since Open, and the size of the file.
type Stats struct {
	Commits, Ops uint64
	Waiting      int   // ops in the queue
	FileBytes    int64 // as the file system says
	// FellBack: when it was opened the newest commit was unreadable, and the one before it is used.
	FellBack bool
	// Squeezed: Open rid the file of its free pages. Leftover: it is still to be, and could not.
	Squeezed, Leftover bool
}

// Stats is how the file does.
func (f *File) Stats() Stats {
	s := Stats{
		Commits: f.commits.Load(), Ops: f.ops.Load(), Waiting: f.queue.len(), FellBack: f.fellBack, Squeezed: f.squeezed, Leftover: f.leftover,
	}
	if info, err := os.Stat(f.path); err == nil {
		s.FileBytes = info.Size()
	}
	return s
}

// Committed is the number of the newest commit: as long as it stays the same, so does the
// content. It starts anew in a file that was compacted.
func (f *File) Committed() uint64 { return uint64(f.synced.Load()) }
