package boltfile

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batchOps   = 256
	BatchBytes = 1 << 20
	// If the last commit took longer than slowCommit, the writer waits lingerFor for more ops; after a quicker commit a
	// timed wait would cost more than it brings.
	slowCommit = 3 * time.Millisecond
	lingerFor  = 300 * time.Microsecond
)

// Op is one change that waits for the writer. It is queued once.
type Op struct {
	// Run runs on the writer's goroutine inside a transaction it shares with other ops. It may
	// run more than once, each time on a fresh transaction, so whatever it sets outside itself
	// it must set anew each time. When it returns an error nothing it wrote stays.
	Run   func(Batch) error
	Size  int  // bytes it will write, about
	Grows bool // refused with ErrFull when the file is nearly full

	state atomic.Int32 // opQueued, then opBegun or opWithdrawn
	err   error        // Run's error in the attempt under way; used by the writer alone
	done  chan error   // capacity 1: the writer answers each begun op once and never waits
}

// Wait waits for a pushed op and returns its outcome. It may be called once.
func (o *Op) Wait() error { return <-o.done }

const (
	opQueued int32 = iota
	opBegun
	opWithdrawn
)

// queue holds the ops that wait for the writer, in order. It has at most one op for each caller, because a caller waits
// for its own.
type queue struct {
	wake chan struct{} // capacity 1: full means "look again"

	mu     sync.Mutex // guards the fields below
	ops    []*Op
	closed error // why nothing more is accepted; nil while open
}

// push queues o, or returns why the queue is closed.
func (q *queue) push(o *Op) error {
	o.done = make(chan error, 1)
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return q.closed
	}
	q.ops = append(q.ops, o)
	q.mu.Unlock()
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // wake is full: the writer looks anyway
	}
}

// close makes the queue refuse all further ops with why. The first reason stays. The op last, if there is one, is
// queued behind all others, unless the queue was closed before.
func (q *queue) close(why error, last *Op) {
	q.mu.Lock()
	if q.closed == nil {
		if q.closed = why; last != nil {
			last.done = make(chan error, 1)
			q.ops = append(q.ops, last)
		}
	}
	q.mu.Unlock()
	q.signal()
}

// len returns how many ops wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ops)
}

// take blocks until there are ops and returns the next batch, marked as begun. It returns nil if the queue is closed
// and empty. lastOps is how many ops the previous commit had, lastTook how long it took. If it had several, take first
// gives their callers time to come back (gather).
func (q *queue) take(lastOps int, lastTook time.Duration) []*Op {
	for alone := lastOps <= 1; ; {
		q.mu.Lock()
		ready, closed := len(q.ops) > 0, q.closed != nil
		var batch []*Op
		if ready && alone {
			batch = q.drainLocked()
		}
		q.mu.Unlock()
		switch {
		case len(batch) > 0, closed && !ready:
			return batch
		case !ready:
			<-q.wake
		case !alone:
			q.gather(lastTook)
			alone = true
		}
	}
}

// gather gives callers whose ops were answered together the time to come back together. Otherwise they would be split
// over two commits from then on.
func (q *queue) gather(lastTook time.Duration) {
	if lastTook > slowCommit {
		t := time.NewTimer(lingerFor)
		defer t.Stop()
		<-t.C
		return
	}
	// On a quick disk: let other goroutines run, as long as that brings more ops.
	for have := 0; ; {
		runtime.Gosched()
		n := q.len()
		if n <= have || n >= batchOps {
			return
		}
		have = n
	}
}

// drainLocked removes the next batch from the queue and returns it, without withdrawn ops. q.mu must be held.
func (q *queue) drainLocked() []*Op {
	var batch []*Op
	n, bytes := 0, 0
	for _, o := range q.ops {
		if len(batch) == batchOps || len(batch) > 0 && bytes+o.Size > BatchBytes {
			break
		}
		n++
		if o.state.CompareAndSwap(opQueued, opBegun) {
			batch = append(batch, o)
			bytes += o.Size
		}
	}
	q.ops = slices.Delete(q.ops, 0, n)
	return batch
}
