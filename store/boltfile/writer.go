package boltfile

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// errClosed is the error of every call after Close.
var errClosed = fmt.Errorf("database: %w", os.ErrClosed)

// run is the writer, the one goroutine that changes the file; Close waits for it. It takes up to a batch from the
// queue, runs the batch in one transaction and answers after the sync: the slower the disk, the more callers share a
// commit.
func (f *File) run() {
	defer close(f.ended)
	for {
		batch := f.queue.take(f.lastOps, f.lastTook)
		if batch == nil {
			break
		}
		f.commit(batch)
		if !f.due {
			continue
		}
		if err := f.askForSpace(); err != nil {
			f.fail(err)
		}
	}
	if f.timer != nil {
		f.timer.Stop()
	}
}

// commit carries batch out and answers every op in it.
func (f *File) commit(batch []*Op) {
	for len(batch) > 0 {
		if err := f.Err(); err != nil {
			answer(batch, err)
			return
		}
		began := time.Now()
		bad, err := f.guarded(batch)
		switch {
		case bad >= 0: // one op failed half done: the others run again without it
			batch[bad].done <- err
			batch = slices.Delete(batch, bad, bad+1)
			continue
		case errors.Is(err, berrors.ErrMaxSizeReached) && len(batch) > 1: // some of the ops may fit
			for _, o := range batch {
				f.commit([]*Op{o})
			}
		case errors.Is(err, berrors.ErrMaxSizeReached):
			answer(batch, ErrFull)
		case noSpace(err) && !f.diskFull: // again, without the ops that make the file grow
			f.refuseGrowth(err)
			continue
		case noSpace(err):
			answer(batch, ErrNoSpace)
		case err != nil:
			f.fail(err)
			answer(batch, f.Err())
		default:
			f.lastOps, f.lastTook = len(batch), time.Since(began)
			f.ops.Add(uint64(len(batch)))
			for _, o := range batch {
				o.done <- o.err
			}
		}
		return
	}
}

// answer gives all ops of batch the same answer.
func answer(batch []*Op, err error) {
	for _, o := range batch {
		o.done <- err
	}
}

// guarded is attempt with a panic turned into an error: bbolt panics at damage that verify could not see, and at a
// page that cannot be read. The transaction is in an unknown state then, and stays open.
func (f *File) guarded(batch []*Op) (bad int, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		f.broken.Store(true)
		bad, err = -1, fmt.Errorf("%w: %v; %s", ErrDamaged, p, Remedy)
		if unread(p) {
			err = ErrUnread
		}
	}()
	return f.attempt(batch)
}

// unread reports whether the panic p is a fault in the file's mapping, which needs
// debug.SetPanicOnFault in the goroutine that reads.
func unread(p any) bool {
	_, ok := p.(interface{ Addr() uintptr })
	return ok
}

// attempt runs batch in one transaction and commits it. bad is the op that failed after it had
// written something, with its error in err; then, as on any error, nothing of batch is stored.
// With bad < 0 a nil error means that batch is on disk, except for the ops that failed before
// they wrote anything: their errors are in op.err.
func (f *File) attempt(batch []*Op) (bad int, err error) {
	b, err := f.begin(true)
	if err != nil {
		return -1, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // not before Begin, which would panic with its locks held
	defer b.Rollback()                                       // does nothing after a commit
	t := &Writer{Tx: b, recording: f.o.CommitLog != nil}
	shared := f.o.Format.Begin(t)
	var refused error // the answer to ops that make the file grow; nil: they may run
	switch {
	case f.diskFull:
		refused = ErrNoSpace
	case f.full(b):
		refused = ErrFull
	}
	for i, o := range batch {
		if o.err = nil; o.Grows && refused != nil {
			o.err = refused
			continue
		}
		before := t.Changes
		if o.err = o.Run(shared); o.err != nil && t.Changes != before {
			return i, o.err
		}
	}
	// Without space, changes that can wait are left waiting: deletions must not fail because of them.
	if err := shared.Settle(refused == nil); err != nil {
		return -1, err
	}
	if t.Changes == 0 {
		shared.Done(false)
		return -1, nil
	}
	if err := f.finish(t, false); err != nil {
		return -1, err
	}
	shared.Done(true)
	return -1, nil
}

// finish adds the log entry and the digest to a transaction with changes, and stores it. base: t recorded the whole
// file.
func (f *File) finish(t *Writer, base bool) (err error) {
	var entry []byte
	place := f.place
	if f.o.CommitLog != nil {
		if place, entry, err = f.entry(t, base); err != nil {
			return err
		}
	}
	digest := f.digest.plus(t.delta)
	if err := putDigest(t.Tx, digest); err != nil {
		return err
	}
	if err := f.store(t.Tx, place, entry); err != nil {
		return err
	}
	f.digest, f.place = digest, place
	return nil
}

// store commits b and syncs it, and at the same time appends entry to the log, if there is one. Nobody can begin to
// read in that time, because bbolt shows readers a commit before its sync.
func (f *File) store(b *bolt.Tx, at Place, entry []byte) (err error) {
	id := b.ID()
	<-f.shown
	defer func() {
		if err != nil && !f.asBefore() { // then readers must be refused, too
			f.fail(err)
		}
		f.shown <- struct{}{}
	}()
	if err := b.Commit(); err != nil { // with NoSync it syncs nothing but a new size of the file
		return err
	}
	if f.o.BeforeSync != nil {
		f.o.BeforeSync()
	}
	logged := func() error { return nil }
	if entry != nil {
		appended := make(chan error, 1)
		go func() { appended <- f.o.CommitLog.To.Append(at, entry) }()
		logged = func() error { return <-appended }
	}
	if err := errors.Join(named("sync", f.bolt.Sync()), named("log", logged())); err != nil {
		// An unsynced commit may look sound as long as it is in memory, also to the next process, which must not build
		// on it. Whether this reaches the disk does not matter. The next leader replays what the log has of it.
		_ = retract(f.file, int64(id%2)*PageSize+pageHeader)
		return err
	}
	f.synced.Store(int64(id))
	f.commits.Add(1)
	return nil
}

// named returns err with what in front of it, unless err is nil.
func named(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// begin calls bolt's Begin, which reads both meta pages through its mapping with its locks held: a fault there would
// leave everybody else waiting for them. So the pages are read from the disk first; they stay in the kernel's memory
// for longer than Begin needs to reach them.
func (f *File) begin(writable bool) (*bolt.Tx, error) {
	var b [2]byte // the last byte of the first meta page, and the first byte of the second
	_, err := f.file.ReadAt(b[:], PageSize-1)
	if err != nil && !errors.Is(err, os.ErrClosed) { // for a closed file Begin has its own error
		return nil, fmt.Errorf("%w: meta page: %w", ErrUnread, err)
	}
	return f.bolt.Begin(writable)
}

// full reports whether ops that make the file grow must be refused: the pages in use reach four fifths of MaxSize.
func (f *File) full(b *bolt.Tx) bool {
	if b.Size() < f.o.MaxSize/5*4 {
		return false
	}
	s := f.bolt.Stats()
	free := int64(s.FreePageN+s.PendingPageN) * PageSize
	return b.Size()-free >= f.o.MaxSize/5*4
}

// fail ends the writer's work for good. A sync that failed may have lost pages that a second sync would not write
// again, so there is no second try. fail may be called from any goroutine; the first cause stays.
func (f *File) fail(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if !f.cause.CompareAndSwap(nil, &err) {
		return
	}
	f.queue.close(err, nil)
	close(f.failed)
}
