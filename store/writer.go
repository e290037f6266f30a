package store

import (
	"context"
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

// writer is the one goroutine that changes the file. It takes what waits in the queue, up to a
// batch, runs it in one transaction and answers after the sync: the slower the disk, the more
// callers share a commit.
type writer struct {
	queue queue

	// Set once, by startWriter.
	bolt   *bolt.DB
	page   int64    // size in bytes
	file   *os.File // which bolt has open
	max    int64    // size in bytes the file may have
	soft   int64    // from which growing ops are refused
	log    *slog.Logger
	failed chan struct{} // closed by fail
	ended  chan struct{} // closed when the goroutine has returned

	// Written by the goroutine, read by any.
	synced      atomic.Int64 // id of the newest transaction known to be on disk
	commits     atomic.Uint64
	ops         atomic.Uint64
	deadDropped atomic.Uint64
	died        [len(deadReasons)]atomic.Uint64
	broken      atomic.Bool // a commit panicked

	// Set once, by fail.
	cause atomic.Pointer[error] // before failed is closed

	sent sentLog // rides along with the commits

	// The goroutine's own.
	lastOps  int
	lastTook time.Duration
	crowded  bool          // the disk is full
	pause    time.Duration // before it is asked for room again
	timer    *time.Timer   // until then; nil when it was never full
	due      bool          // the pause is over

	cursors cursors
}

// startWriter starts the goroutine; stop waits for it. Everything in b must be synced.
func startWriter(b *bolt.DB, f *os.File, o Options) (*writer, error) {
	w := &writer{
		queue: queue{wake: make(chan struct{}, 1)},
		bolt:  b, page: int64(b.Info().PageSize), file: f, max: o.MaxSize, soft: o.MaxSize / 5 * 4, log: o.Log,
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	err := b.View(func(t *bolt.Tx) error {
		w.synced.Store(int64(t.ID()))
		w.sent.count = countSent(t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// stop finishes what is queued, refuses everything else with why, and returns when the
// goroutine has.
func (w *writer) stop(why error) {
	w.queue.close(why)
	<-w.ended
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
	w.storeLast()
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
func (w *writer) commit(batch []*op) {
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
				w.commit([]*op{o})
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

func answer(batch []*op, err error) {
	for _, o := range batch {
		o.done <- err
	}
}

// guarded is attempt with a panic turned into an error: bbolt panics when it meets a page whose
// damage verify could not see, and a page that cannot be read is a fault in its mapping. The
// transaction is in an unknown state then, and stays open.
func (w *writer) guarded(batch []*op) (bad int, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		w.broken.Store(true)
		bad, err = -1, fmt.Errorf("%w: %v; %s", ErrDamaged, p, remedy)
		if unread(p) {
			err = errUnread
		}
	}()
	return w.attempt(batch)
}

// errUnread is as final as a write that failed.
var errUnread = errors.New("the disk does not give back a page of the file")

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
func (w *writer) attempt(batch []*op) (bad int, err error) {
	b, err := w.begin(true)
	if err != nil {
		return -1, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // not before Begin, which would panic with its locks held
	defer b.Rollback()                                       // does nothing after a commit
	t := &tx{Tx: b, waiting: w.cursors.waiting}
	var refused error // to what grows
	switch {
	case w.crowded:
		refused = ErrNoSpace
	case w.full(b):
		refused = ErrFull
	}
	for i, o := range batch {
		if o.err = nil; o.grows && refused != nil {
			o.err = refused
			continue
		}
		before := t.writes
		if o.err = t.run(o); o.err != nil && t.writes != before {
			return i, o.err
		}
	}
	// When there is no room they wait on: what deletes must not fail for them.
	take := refused == nil && (t.writes > 0 || w.cursors.due)
	committed := func() {}
	if take {
		if err := t.takeCursors(); err != nil {
			return -1, err
		}
		if committed, err = w.sent.ride(t); err != nil {
			return -1, err
		}
	}
	if t.writes == 0 {
		w.cursors.after(take, t.cursors, w.remind)
		return -1, nil
	}
	if err := t.flush(); err != nil {
		return -1, err
	}
	id := b.ID()
	if err := b.Commit(); err != nil {
		return -1, err
	}
	w.synced.Store(int64(id))
	w.commits.Add(1)
	committed()
	w.cursors.after(take, t.cursors, w.remind)
	w.deadDropped.Add(t.deadDropped)
	for _, why := range t.died {
		w.died[slices.Index(deadReasons[:], why)].Add(1)
	}
	return -1, nil
}

// begin is bolt's Begin, which reads both meta pages through its mapping with its locks held: a fault
// there would leave everybody else waiting for them. So the disk is asked for them first; what it
// gives stays in memory for longer than it takes to get there.
func (w *writer) begin(writable bool) (*bolt.Tx, error) {
	var b [1]byte
	for _, at := range []int64{0, w.page} {
		if _, err := w.file.ReadAt(b[:], at); err != nil && !errors.Is(err, os.ErrClosed) { // of which Begin has its own word
			return nil, fmt.Errorf("%w: meta page: %w", errUnread, err)
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
	free := int64(s.FreePageN+s.PendingPageN) * int64(w.bolt.Info().PageSize)
	return b.Size()-free >= w.soft
}

// fail ends the writer's work for good. A sync that failed may have lost pages that a second
// try would not write again, so there is none. Any goroutine; the first cause stays.
func (w *writer) fail(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if !w.cause.CompareAndSwap(nil, &err) {
		return
	}
	w.queue.close(err)
	close(w.failed)
}

// read runs fn in a read transaction of its own. fn must copy what it keeps. What fn sees is
// on disk: bbolt shows readers a commit while its last sync is still under way, and an answer
// drawn from that could outlive the data it rests on. A page that cannot be read is ErrFailed.
func (w *writer) read(ctx context.Context, fn func(*bolt.Tx) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		synced, err := w.tryRead(fn)
		if synced || err != nil {
			return err
		}
		// Once the writer answers anything, the commit we saw is through.
		if err := w.queue.do(ctx, &op{fn: func(*tx) error { return nil }}); err != nil {
			return err
		}
	}
}

func (w *writer) tryRead(fn func(*bolt.Tx) error) (synced bool, err error) {
	t, err := w.begin(false)
	switch {
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return false, errClosed
	case errors.Is(err, errUnread):
		w.fail(err)
		return false, w.err()
	case err != nil:
		return false, err
	}
	defer t.Rollback()
	if int64(t.ID()) > w.synced.Load() {
		return false, nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // not before Begin either
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case unread(p):
			w.fail(errUnread)
			err = w.err()
		default:
			panic(p)
		}
	}()
	return true, fn(t)
}
