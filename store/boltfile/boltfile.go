// Package boltfile is a checked bbolt file with one writer. A read returns the data that was written, or an error that
// names the damage; a write returns after the sync. The package does not know the records: the Format tells it what it
// needs to know.
//
// Every value is stored in an envelope with a checksum over its key and itself (envelope.go). A digest over all records
// is stored beside them (digest.go). Each start reads and checks the whole file before bbolt opens it (verify.go).
//
// A commit is one sync: bbolt writes the pages and the meta page, then the file is synced once, then the writers get
// their answers. This is safe because a commit never overwrites a page of the commit before it, which was synced before
// this one began. After a power cut any part of an unsynced commit may be on disk, but nobody was told that it was
// stored. The check at the next start finds such a commit by a missing page, by a checksum or, where old pages are
// still in the place of new ones, by the digest. Then the commit before it is used, and Stats says so (FellBack).
//
// All changes at run time are made through Writer.change, and only File.store commits them.
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

// PageSize is the page size of a new file. The host's may be 16 KiB, with which a small record costs four times as
// much.
const PageSize = 4096

// probeTime is how long Probe waits for the writer.
const probeTime = 5 * time.Second

// Options are the settings of a file. All must be set, except BeforeSync and CommitLog.
type Options struct {
	MaxSize     int64         // in bytes; from four fifths of it on, writes that make the file grow are refused with ErrFull
	LockTimeout time.Duration // how long Open waits for another process to release the file
	Compact     bool          // Open shrinks a file that is larger than 8 MiB and than twice its live data
	Now         func() time.Time
	Log         *slog.Logger
	// OpenFile opens the file. In tests it makes the disk fail.
	OpenFile func(path string, flag int, mode fs.FileMode) (*os.File, error)
	// BeforeSync, if set, is called when a commit is written completely and nothing of it is synced. Tests cut the
	// power there.
	BeforeSync func()
	// CommitLog, if set, stores every commit in addition to the file.
	CommitLog *Log
	Format    Format
}

// Format is what the package has to know about the records.
type Format struct {
	Schema uint32 // the version to which Prepare migrates the records; log entries name it
	// Fill makes a database of an empty file.
	Fill func(*bolt.Tx) error
	// Prepare migrates the file to the current version and deals with its damaged records, before anybody else uses it.
	// If it returns an error, the file is not opened.
	Prepare func(*bolt.DB, []Damaged) error
	// Begin is called for every transaction of the writer.
	Begin func(*Writer) Batch
}

// Batch is the owner's side of one transaction. The writer's goroutine calls its methods.
type Batch interface {
	// Settle makes the changes that all ops share, after the last of them has run. spare reports whether there is disk
	// space for changes that can wait.
	Settle(spare bool) error
	// Done is called when the transaction is over. stored is false if there was nothing worth storing. Done is not
	// called after an error.
	Done(stored bool)
}

// File is an open file. Its methods may be called from any goroutine.
type File struct {
	queue queue

	// Set once, by Open.
	path     string
	bolt     *bolt.DB
	file     *os.File // the file that bolt has open
	o        Options
	fellBack bool
	squeezed bool          // Open has removed the free pages, as Writer.Squeeze asked
	leftover bool          // that was asked, and Open could not do it
	failed   chan struct{} // closed by fail
	ended    chan struct{} // closed when the writer has returned

	// shown holds one token. The writer has it from before a commit until after the sync; a reader takes it only to
	// begin its transaction. So no reader begins between a commit and its sync.
	shown chan struct{}

	// Written by the writer, read by anybody.
	synced  atomic.Int64 // number of the newest transaction known to be on disk
	commits atomic.Uint64
	ops     atomic.Uint64
	broken  atomic.Bool // a commit panicked

	// Set once, by fail.
	cause atomic.Pointer[error] // set before failed is closed

	// Used by the writer alone.
	digest   Digest // of the newest commit
	place    Place  // the position in the log
	lastOps  int
	lastTook time.Duration
	diskFull bool          // writes that make the file grow are refused
	pause    time.Duration // how long to wait before asking the disk for space again
	timer    *time.Timer   // runs for that pause; nil if the disk was never full
	due      bool          // the pause is over
}

// Open opens the file at path. If there is none, it makes one under another name and then gives it that path. It
// returns ErrLocked if another process has the file, and ErrDamaged if it is not a sound file of ours; then the file is
// not changed. The caller must Close the File.
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

// lock opens the file at path for this process alone. f is the file that bbolt has open.
func lock(path string, o Options) (b *bolt.DB, f *os.File, err error) {
	openFile := o.OpenFile
	o.OpenFile = func(path string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		f, err = openFile(path, flag, mode)
		return f, err
	}
	if b, err = OpenBolt(path, o); err != nil {
		return nil, nil, err
	}
	// This process may have got the lock because another one has just put a new file in the place of this file.
	opened, err1 := f.Stat()
	named, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(opened, named) {
		return nil, nil, errors.Join(fmt.Errorf("%w, and has just replaced it; try again", ErrLocked), b.Close())
	}
	return b, f, nil
}

// start lets the owner of the records prepare the open file, and starts the writer.
func (f *File) start(got Found) error {
	// A killed process may have left its last writes in the kernel's memory only. They are synced before anything is
	// written that builds on them.
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
	// Update also makes the digest anew, if none can be read.
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

// OpenBolt opens the file at path with the settings that this package relies on. Nobody else may use the file, and
// Adopt must have found it sound. bbolt panics on some files that it cannot read.
func OpenBolt(path string, o Options) (b *bolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v; %s", ErrDamaged, p, Remedy)
		}
	}()
	// A file that outgrows its mapping makes the writer wait for every reader, even for a whole backup. On a 64-bit
	// host the mapping is as large as the file may become, which costs no memory. On a 32-bit host addresses are
	// scarce.
	mapped := int(o.MaxSize)
	if strconv.IntSize == 32 {
		mapped = 256 << 20
	}
	b, err = bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         o.LockTimeout,
		NoFreelistSync:  true, // a freelist on disk costs more, the more pages are free
		FreelistType:    bolt.FreelistMapType,
		PageSize:        PageSize,
		MaxSize:         int(o.MaxSize),
		InitialMmapSize: mapped,
		OpenFile:        o.OpenFile,
	})
	if err != nil {
		return nil, boltError(err)
	}
	b.AllocSize = int(min(max(o.MaxSize/64, 64<<10), 4<<20)) // the file grows in steps of this size, each with one more sync
	return b, nil
}

// boltError turns bbolt's reason for refusing a file into an error of ours.
func boltError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w; stop it, or give this one a data folder of its own", ErrLocked)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, Remedy)
	}
	return err
}

// Close runs the ops that wait, and then last, unless that is nil. It refuses new ops, and releases the file.
func (f *File) Close(last *Op) error {
	f.queue.close(errClosed, last)
	<-f.ended
	var lastErr error
	if last != nil && last.done != nil {
		lastErr = last.Wait()
	}
	if f.broken.Load() {
		// Closing would wait for a transaction that nobody can end. The process releases the lock when it ends.
		return nil
	}
	return errors.Join(lastErr, f.bolt.Close())
}

// Failed returns a channel that is closed when a commit fails or a page cannot be read. Nothing is accepted after that,
// and the process must end.
func (f *File) Failed() <-chan struct{} { return f.failed }

// Err returns nil, or an ErrFailed that wraps the first cause.
func (f *File) Err() error {
	if p := f.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Do runs o in the next transaction, and returns after the sync. If ctx ends before o has begun, o never begins. Once o
// has begun, Do waits for the outcome, because o may be on disk.
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

// Probe reports whether the writer takes writes. It returns nil, ErrFull, ErrNoSpace, ErrFailed, or an error if the
// writer has not answered within five seconds. It commits nothing.
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
	// FellBack: the newest commit was unreadable when the file was opened, and the one before it is used.
	FellBack bool
	// Squeezed: Open removed the file's free pages, and with them deleted and replaced values. Leftover: Open could not
	// remove them, and the next Open tries again.
	Squeezed, Leftover bool
}

// Stats returns the file's counters.
func (f *File) Stats() Stats {
	s := Stats{
		Commits: f.commits.Load(), Ops: f.ops.Load(), Waiting: f.queue.len(), FellBack: f.fellBack, Squeezed: f.squeezed, Leftover: f.leftover,
	}
	if info, err := os.Stat(f.path); err == nil {
		s.FileBytes = info.Size()
	}
	return s
}

// Committed returns the number of the newest commit: while it stays the same, so does the content. It starts anew after
// a compaction.
func (f *File) Committed() uint64 { return uint64(f.synced.Load()) }
