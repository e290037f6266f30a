// Package background does small tasks on a platform for which no caller waits. A task that may be done twice is tried
// again for as long as it is useful. Tasks that wait at the end of the process are lost, except for those that Farewell
// waits for.
package background

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

const (
	// within bounds one try of a task.
	within = 25 * time.Second
	// Life is how long a task is useful: as long as a capability lives.
	Life = 15 * time.Minute
	// shortest and longest are the least and the longest pause before a next try, unless the platform
	// names a longer one.
	shortest, longest = time.Second, 30 * time.Second
	// farewellWithin bounds how long a stop waits for tasks.
	farewellWithin = 5 * time.Second
	// runners is how many tasks run at once: one chat's rate limit must not hold up the others.
	runners = 16
)

// Task is one task, such as an answer to a control message, or the removal of a placeholder.
type Task struct {
	Do    func(context.Context) error
	Until time.Time // of no use from then on
	// Harmless: doing it twice is like doing it once, so it is tried again also when it may have been done.
	Harmless bool
	Urgent   bool // a person waits to read it: it goes before other tasks

	GivenUp count.Counter // counts the task if it is given up: refused for good, or past its time
	pause   time.Duration // before it was tried last
}

// Queue is the tasks that wait. None is dropped while the process runs: each takes little memory, and its time
// is bounded. They begin in the order they came, the urgent ones first.
type Queue struct {
	counters *count.Totals
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	waiting []Task
	urgent  int           // the first so many waiting tasks are urgent
	open    int           // tasks that are not over: they wait, are under way, or will be tried again
	changed chan struct{} // closed and replaced when one came or was over
}

// New makes a queue that counts the tasks that it gives up.
func New(counters *count.Totals, log *slog.Logger) *Queue {
	return &Queue{counters: counters, log: log, changed: make(chan struct{})}
}

// Run does the tasks, at most runners at once, until ctx ends. While there are none, only one goroutine waits: a
// process may have hundreds of queues.
func (q *Queue) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for places := make(chan struct{}, runners); ; {
		places <- struct{}{}
		e, ok := q.take(ctx)
		if !ok {
			return
		}
		wg.Go(func() {
			q.try(ctx, e)
			<-places
		})
	}
}

// Put puts a task on its way. It does not block: Accept and the sessions' readers must not wait for a
// platform.
func (q *Queue) Put(e Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open++
	at := len(q.waiting)
	if e.Urgent {
		at = q.urgent
		q.urgent++
	}
	q.waiting = slices.Insert(q.waiting, at, e)
	q.changedLocked()
}

// over notes the end of a task, or of an earlier try of it, which was queued again.
func (q *Queue) over() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	q.changedLocked()
}

// changedLocked makes everybody who waits in until check again. q.mu must be held.
func (q *Queue) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// until waits for ok, which is called with q.mu held; false: ctx ended first.
func (q *Queue) until(ctx context.Context, ok func() bool) bool {
	for ctx.Err() == nil {
		q.mu.Lock()
		done, changed := ok(), q.changed
		q.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// take returns the next task; false: ctx ended first.
func (q *Queue) take(ctx context.Context) (e Task, ok bool) {
	ok = q.until(ctx, func() bool {
		if len(q.waiting) == 0 {
			return false
		}
		e, q.waiting[0] = q.waiting[0], Task{}
		q.waiting, q.urgent = q.waiting[1:], max(0, q.urgent-1)
		return true
	})
	return e, ok
}

// Step waits for a task and tries it once, and queues it again if that makes sense; false: ctx ended before there was
// one. Tests call it in place of Run.
func (q *Queue) Step(ctx context.Context) bool {
	e, ok := q.take(ctx)
	if ok {
		q.try(ctx, e)
	}
	return ok
}

// Waiting returns how many tasks have not begun.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// try does e once. If that failed, it queues e again after a pause, or gives it up.
func (q *Queue) try(ctx context.Context, e Task) {
	trying, cancel := context.WithTimeout(ctx, within)
	err := e.Do(trying)
	cancel()
	if err == nil || ctx.Err() != nil {
		q.over()
		return
	}
	e.pause = min(max(2*e.pause, shortest), longest)
	pause := max(e.pause, relay.Explain(err).RetryAfter)
	if !e.again(err) || !time.Now().Add(pause).Before(e.Until) {
		q.counters.Add(e.GivenUp, 1)
		q.log.Warn("an answer of the connector's own did not go out", "err", err)
		q.over()
		return
	}
	time.AfterFunc(pause, func() {
		q.Put(e)
		q.over() // the try before
	})
}

// Farewell waits until every task is done, at most five seconds, or until hurry ends. It is called while
// Run runs, when nobody calls Put any more. Placeholders that nobody has answered stay: the next process answers.
func (q *Queue) Farewell(hurry context.Context) {
	ctx, cancel := context.WithTimeout(hurry, farewellWithin)
	defer cancel()
	q.until(ctx, func() bool { return q.open == 0 })
}

// again reports whether a task that failed with err may and should be tried again.
func (e Task) again(err error) bool {
	ae := relay.Explain(err)
	switch {
	case errors.Is(err, platforms.ErrCapabilityGone):
		return false
	case ae.Outcome == relay.MaybeSent:
		return e.Harmless
	}
	return ae.Retried()
}
