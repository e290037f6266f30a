package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

const (
	// errandWithin bounds one try of an errand.
	errandWithin = 25 * time.Second
	// errandLife is how long an errand is of use: as long as a capability lives.
	errandLife = 15 * time.Minute
	// errandPause and errandPauseMax are the least and the longest pause before a next try, unless the platform
	// names a longer one.
	errandPause, errandPauseMax = time.Second, 30 * time.Second
	// farewellWithin bounds how long a stop waits for errands.
	farewellWithin = 10 * time.Second
	// runners is how many errands are under way at once: one chat's rate limit must not hold up the others.
	runners = 16
)

// errand is a small thing to do on a platform for which no caller waits: an answer to a control message, a
// placeholder to take away.
type errand struct {
	do    func(context.Context) error
	until time.Time // of no use from then on
	// harmless: doing it twice is like doing it once, so it is tried again also when it may have been done.
	harmless bool
	urgent   bool // a person waits to read it: it goes before what merely must be done

	givenUp count.Counter // counts the errand if it is given up: refused for good, or past its time
	pause   time.Duration // before it was tried last
}

// errands are those that wait. None is dropped while the process runs: each takes little memory, and its time
// is bounded. They begin in the order they came, the urgent ones first. Those that wait at the end of the
// process are lost, see Farewell.
type errands struct {
	mu      sync.Mutex // guards the fields below
	waiting []errand
	urgent  int           // how many of the first that wait are urgent
	open    int           // that are not over: they wait, are under way, or are to be tried again
	changed chan struct{} // closed and replaced when one came or was over
}

func newErrands() *errands { return &errands{changed: make(chan struct{})} }

// put puts an errand on its way. It does not block: Accept and the sessions' readers must not wait for a
// platform.
func (q *errands) put(e errand) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open++
	at := len(q.waiting)
	if e.urgent {
		at = q.urgent
		q.urgent++
	}
	q.waiting = slices.Insert(q.waiting, at, e)
	q.changedLocked()
}

// over ends one that was taken, or one of its tries.
func (q *errands) over() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	q.changedLocked()
}

// changedLocked has until look again. q.mu must be held.
func (q *errands) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// until waits for ok, which is called with q.mu held; false: ctx ended first.
func (q *errands) until(ctx context.Context, ok func() bool) bool {
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

// take is the next one; false: ctx ended first.
func (q *errands) take(ctx context.Context) (e errand, ok bool) {
	ok = q.until(ctx, func() bool {
		if len(q.waiting) == 0 {
			return false
		}
		e, q.waiting[0] = q.waiting[0], errand{}
		q.waiting, q.urgent = q.waiting[1:], max(0, q.urgent-1)
		return true
	})
	return e, ok
}

// errandLoop is one runner.
func (h *Hub) errandLoop(ctx context.Context) {
	for e, ok := h.errands.take(ctx); ok; e, ok = h.errands.take(ctx) {
		h.run(ctx, e)
	}
}

// run tries an errand once, and sees to it that it is tried again if that makes sense.
func (h *Hub) run(ctx context.Context, e errand) {
	try, cancel := context.WithTimeout(ctx, errandWithin)
	err := e.do(try)
	cancel()
	if err == nil || ctx.Err() != nil {
		h.errands.over()
		return
	}
	e.pause = min(max(2*e.pause, errandPause), errandPauseMax)
	pause := max(e.pause, relay.Explain(err).RetryAfter)
	if !e.again(err) || !time.Now().Add(pause).Before(e.until) {
		h.counters.Add(e.givenUp, 1)
		h.log.Warn("an answer of the connector's own did not go out", "err", err)
		h.errands.over()
		return
	}
	time.AfterFunc(pause, func() {
		h.errands.put(e)
		h.errands.over() // the try before
	})
}

// Farewell waits until every errand is done, at most farewellWithin, or until hurry ends. It is called while the hub
// runs, when no session is left. Placeholders that nobody has answered stay: the next process answers.
func (h *Hub) Farewell(hurry context.Context) {
	ctx, cancel := context.WithTimeout(hurry, farewellWithin)
	defer cancel()
	h.errands.until(ctx, func() bool { return h.errands.open == 0 })
}

// again reports whether an errand that failed with err may and should be tried again.
func (e errand) again(err error) bool {
	ae := relay.Explain(err)
	switch {
	case errors.Is(err, platforms.ErrCapabilityGone):
		return false
	case ae.Outcome == relay.MaybeSent:
		return e.harmless
	}
	return strings.Contains(ae.Public, "network") // the word that says so to gateways
}
