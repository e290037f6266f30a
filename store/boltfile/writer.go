package boltfile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// errClosed is what everything returns after Close.
var errClosed = fmt.Errorf("database: %w", os.ErrClosed)

// writer is the one goroutine that changes the file. It takes what waits in the queue, up to a
// batch, runs it in one transaction and answers after the sync: the slower the disk, the more
// callers share a commit.
type writer struct {
	queue queue

	// Set once, by startWriter.
	bolt       *bolt.DB
	file       *os.File // which bolt has open
	max        int64    // size in bytes the file may have
	soft       int64    // from which growing ops are refused
	begun      func(*Tx) Batch
	beforeSync func()
	log        *slog.Logger
	failed     chan struct{} // closed by fail
	ended      chan struct{} // closed when the goroutine has returned

	// Written by the goroutine, read by any.
	synced  atomic.Int64 // id of the newest transaction known to be on disk
	commits atomic.Uint64
	ops     atomic.Uint64
	broken  atomic.Bool // a commit panicked

	// Set once, by fail.
	cause atomic.Pointer[error] // before failed is closed

	// The goroutine's own.
	lastOps  int
	lastTook time.Duration
	crowded  bool          // the disk is full
	pause    time.Duration // before it is asked for space again
	timer    *time.Timer   // until then; nil when it was never full
	due      bool          // the pause is over
}

// startWriter starts the goroutine; stop waits for it. Everything in b must be synced.
func startWriter(b *bolt.DB, f *os.File, o Options) (*writer, error) {
	w := &writer{
		queue: queue{wake: make(chan struct{}, 1)},
		bolt:  b, file: f, max: o.MaxSize, soft: o.MaxSize / 5 * 4, log: o.Log,
		begun: o.Format.Begin, beforeSync: o.BeforeSync,
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	if w.beforeSync == nil {
		w.beforeSync = func() {}
	}
	err := b.View(func(t *bolt.Tx) error {
		w.synced.Store(int64(t.ID()))
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.NoSync = true // from here on attempt syncs
	go w.run()
	return w, nil
}

// stop finishes what is queued and last behind it, refuses everything else, and returns when the
// goroutine has, with the outcome of last.
func (w *writer) stop(last *Op) error {
	w.queue.close(errClosed, last)
	<-w.ended
	if last == nil || last.done == nil {
		return nil
	}
	return last.Wait()
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		batch := w.queue.take(w.lastOps, w.lastTook)
		if batch == nil {
			break
		}
		w.commit(batch)
		if !w.due {
			continue
		}
		if err := w.claim(); err != nil {
			w.fail(err)
		}
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// err is why the writer failed, or nil.
func (w *writer) err() error {
	if p := w.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// commit carries batch out and answers every op in it.
func (w *writer) commit(batch []*Op) {
	for len(batch) > 0 {
		if err := w.err(); err != nil {
			answer(batch, err)
			return
		}
		began := time.Now()
		bad, err := w.guarded(batch)
		switch {
		case bad >= 0: // one op failed half done: the others go again without it
			batch[bad].done <- err
			batch = slices.Delete(batch, bad, bad+1)
			continue
		case errors.Is(err, berrors.ErrMaxSizeReached) && len(batch) > 1: // some of them may fit
			for _, o := range batch {
				w.commit([]*Op{o})
			}
		case errors.Is(err, berrors.ErrMaxSizeReached):
			answer(batch, ErrFull)
		case noSpace(err) && w.asBefore():
			if again := !w.crowded; again { // without what grows
				w.crowd(err)
				continue
			}
			answer(batch, ErrNoSpace)
		case err != nil:
			w.fail(err)
			answer(batch, w.err())
		default:
			w.lastOps, w.lastTook = len(batch), time.Since(began)
			w.ops.Add(uint64(len(batch)))
			for _, o := range batch {
				o.done <- o.err
			}
		}
		return
	}
}

func answer(batch []*Op, err error) {
	for _, o := range batch {
		o.done <- err
	}
}

// guarded is attempt with a panic turned into an error: bbolt panics when it meets a page whose
// damage verify could not see, and a page that cannot be read is a fault in its mapping. The
// transaction is in an unknown state then, and stays open.
func (w *writer) guarded(batch []*Op) (bad int, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		w.broken.Store(true)
		bad, err = -1, fmt.Errorf("%w: %v; %s", ErrDamaged, p, Remedy)
		if unread(p) {
			err = ErrUnread
		}
	}()
	return w.attempt(batch)
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
// they wrote anything: theirs stands in op.err.
func (w *writer) attempt(batch []*Op) (bad int, err error) {
	b, err := w.begin(true)
	if err != nil {
		return -1, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // not before Begin, which would panic with its locks held
	defer b.Rollback()                                       // does nothing after a commit
	t := &Tx{Tx: b}
	shared := w.begun(t)
	var refused error // to what grows
	switch {
	case w.crowded:
		refused = ErrNoSpace
	case w.full(b):
		refused = ErrFull
	}
	for i, o := range batch {
		if o.err = nil; o.Grows && refused != nil {
			o.err = refused
			continue
		}
		before := shared.Writes()
		if o.err = o.Run(shared); o.err != nil && shared.Writes() != before {
			return i, o.err
		}
	}
	// When there is no space what can wait waits on: what deletes must not fail for it.
	if err := shared.Settle(refused == nil); err != nil {
		return -1, err
	}
	if shared.Writes() == 0 {
		shared.Done(false)
		return -1, nil
	}
	if err := t.settle(); err != nil {
		return -1, err
	}
	id := b.ID()
	if err := b.Commit(); err != nil { // which syncs nothing but a new size of the file
		return -1, err
	}
	w.beforeSync()
	if err := w.bolt.Sync(); err != nil {
		// What was not synced may look sound for as long as it is in memory, also to the next process: it must
		// not build on that. Whether this reaches the disk does not matter.
		_ = retract(w.file, int64(id%2)*PageSize+pageHeader)
		return -1, fmt.Errorf("sync: %w", err)
	}
	w.synced.Store(int64(id))
	w.commits.Add(1)
	shared.Done(true)
	return -1, nil
}

// begin is bolt's Begin, which reads both meta pages through its mapping with its locks held: a fault
// there would leave everybody else waiting for them. So the disk is asked for them first; what it
// gives stays in memory for longer than it takes to get there.
func (w *writer) begin(writable bool) (*bolt.Tx, error) {
	var b [1]byte
	for _, at := range []int64{0, PageSize} {
		if _, err := w.file.ReadAt(b[:], at); err != nil && !errors.Is(err, os.ErrClosed) { // of which Begin has its own word
			return nil, fmt.Errorf("%w: meta page: %w", ErrUnread, err)
		}
	}
	return w.bolt.Begin(writable)
}

// full reports whether growing ops are to be refused.
func (w *writer) full(b *bolt.Tx) bool {
	if b.Size() < w.soft {
		return false
	}
	s := w.bolt.Stats()
	free := int64(s.FreePageN+s.PendingPageN) * PageSize
	return b.Size()-free >= w.soft
}

// fail ends the writer's work for good. A sync that failed may have lost pages that a second
// try would not write again, so there is none. Any goroutine; the first cause stays.
func (w *writer) fail(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if !w.cause.CompareAndSwap(nil, &err) {
		return
	}
	w.queue.close(err, nil)
	close(w.failed)
}
