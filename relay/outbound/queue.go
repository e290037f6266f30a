package outbound

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

const (
	// atOnce is how many waiting answers are being sent at once; ofOne is how many of one tenant.
	atOnce, ofOne = 16, 4
	// shortest and longest are the least and the longest pause before a bot is tried again that could not be reached.
	shortest, longest = 2 * time.Second, time.Minute
	// lookEvery is how often the queue checks whether such a bot is connected again.
	lookEvery = 2 * time.Second
	// maxEnded is how many of the last unsent answers are remembered.
	maxEnded = 100
)

// Queue holds the final answers that no network could take when they came: each stays on disk until it is sent. Within
// a chat they keep their order, and newer actions wait behind them. At most atOnce are sent at a time, and tenants take
// turns. Its methods may be called from any goroutine. An empty queue has no timer, and costs an action one look at a
// number.
type Queue struct {
	// Set once, by New.
	out  *Outbound
	keep time.Duration // how long an answer is useful; 0: none is stored

	poke chan struct{} // holds one value: there may be something to begin
	size atomic.Int64  // how many lines there are

	mu    sync.Mutex // guards the fields below, and every line
	lines map[relay.Chat]*line
	away  map[relay.Bot]*absence // bots that could not be reached
	going fair.Tally             // of answers that are being sent
	moved chan struct{}          // closed and replaced when a line changed
	stale bool                   // some waiting answers may have been dropped from the disk
	ended []Ended                // the last answers that were not sent, the oldest first
}

// line holds the waiting answers of one chat, the oldest first. It exists only while there are some.
type line struct {
	waiting []waiter
	going   bool      // its first answer is being sent
	away    bool      // its first answer was tried, and the bot could not be reached
	next    time.Time // its first answer is not tried before that
	why     string    // why its first answer was not sent when it was tried last
}

// waiter is what the queue remembers of an answer: the rest is in its record.
type waiter struct {
	number uint64
	of     fair.Owner
	at     time.Time // when its action came
	late   bool      // it is not sent any more: its person is told
}

// absence is the state of a bot that could not be reached.
type absence struct {
	next   time.Time // it is not tried before that
	pause  time.Duration
	trying bool // an answer is being sent that shows whether the bot is back
	down   bool // the bot was not connected when lookLocked last checked its status
}

// Ended is an answer that was not sent, and why.
type Ended struct {
	outbox.Record // without its frame
	When          time.Time
	Because       Because
	Words         string // the network's, if it refused it; for the operator
}

// Because is why an answer was not sent.
type Because string

// Why an answer was not sent.
const (
	BecauseDeclined Because = "declined" // its agent may not write in the chat any more
	BecauseRefused  Because = "refused"  // the network did not take it
	BecauseLate     Because = "late"     // its time was over
	BecauseUnknown  Because = "unknown"  // its time was over, and it may have been sent
)

func newQueue(out *Outbound, keep time.Duration) *Queue {
	return &Queue{
		out: out, keep: keep, poke: make(chan struct{}, 1), moved: make(chan struct{}),
		lines: make(map[relay.Chat]*line), away: make(map[relay.Bot]*absence),
	}
}

// Resume reads the answers on disk. It is called before anything is sent.
func (q *Queue) Resume(ctx context.Context) error {
	all, err := q.out.db.Outbox.List(ctx, outbox.Filter{})
	for _, r := range all {
		q.push(r)
	}
	return err
}

// push puts an answer that is stored behind the others of its chat.
func (q *Queue) push(r outbox.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[r.Line()]
	if l == nil {
		l = &line{}
		q.lines[r.Line()] = l
		q.size.Add(1)
	}
	w := waiter{number: r.Number, of: fair.Owner{Tenant: r.Tenant, Instance: r.Instance}, at: r.At, late: r.State() == outbox.Late}
	at, known := slices.BinarySearchFunc(l.waiting, r.Number, func(w waiter, number uint64) int {
		return cmp.Compare(w.number, number) // two answers that were stored at once may be pushed in either order
	})
	if known {
		return
	}
	l.waiting = slices.Insert(l.waiting, at, w)
	q.movedLocked()
}

// movedLocked makes Run, and everybody who waits in until, check the lines again. q.mu must be held.
func (q *Queue) movedLocked() {
	close(q.moved)
	q.moved = make(chan struct{})
	q.wake()
}

// wake makes Run look for something to begin. It does not block.
func (q *Queue) wake() {
	select {
	case q.poke <- struct{}{}:
	default:
	}
}

// Recheck makes Run forget answers that are no longer on disk, and try bots again. It does not block.
func (q *Queue) Recheck() {
	if q.size.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = true
	clear(q.away)
	q.wake()
}

// Holds reports whether an answer waits in the chat.
func (q *Queue) Holds(c relay.Chat) bool {
	if q.size.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[c] != nil
}

// until waits for ok, which is called with q.mu held; false: ctx ended first.
func (q *Queue) until(ctx context.Context, ok func() bool) bool {
	for {
		q.mu.Lock()
		done, moved := ok(), q.moved
		q.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// passes waits for the chat to have no waiting answer, at the latest until the time named then; false: the chat still
// had one.
func (q *Queue) passes(ctx context.Context, c relay.Chat, then time.Time) bool {
	patience := platforms.Patience(ctx)
	ctx, cancel := context.WithDeadline(ctx, then)
	defer cancel()
	defer context.AfterFunc(patience, cancel)()
	return q.until(ctx, func() bool { return q.lines[c] == nil })
}

// seize waits until none of the chat's answers is being sent, and prevents that until release is called; ok is false if
// ctx ended first.
func (q *Queue) seize(ctx context.Context, c relay.Chat) (release func(), ok bool) {
	var mine *line
	ok = q.until(ctx, func() bool {
		if mine = q.lines[c]; mine == nil {
			return true
		}
		if mine.going {
			return false
		}
		mine.going = true
		return true
	})
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if mine != nil {
			mine.going = false
			q.forgetLocked(c, func(waiter) bool { return false })
		}
	}, ok
}

// lateIn returns the chat's answers that are too late.
func (q *Queue) lateIn(c relay.Chat) (numbers []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.lines[c].waiting { // the line exists: one of its answers is being sent
		if w.late {
			numbers = append(numbers, w.number)
		}
	}
	return numbers
}

// forget takes an answer that is not to be tried again out of its line.
func (q *Queue) forget(c relay.Chat, number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked(c, func(w waiter) bool { return w.number == number })
}

// forgetLocked removes from a chat's line the answers for which which returns true, and the line if it is empty. q.mu
// must be held.
func (q *Queue) forgetLocked(c relay.Chat, which func(waiter) bool) {
	l := q.lines[c]
	if l == nil {
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, which)
	if len(l.waiting) == 0 && !l.going {
		delete(q.lines, c)
		q.size.Add(-1)
	}
	q.movedLocked()
}

// State says what keeps the answers of a chat.
type State struct {
	Why  string    // in the words of the last try; empty: no try has failed
	Next time.Time // when they are tried again at the latest, as far as is known; zero: at once
}

// State returns what keeps the answers of a chat now; ok is false if none waits there.
func (q *Queue) State(c relay.Chat) (s State, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[c]
	if l == nil {
		return s, false
	}
	s = State{Why: l.why, Next: l.next}
	if a := q.away[c.Bot]; a != nil && a.next.After(s.Next) {
		s.Next = a.next
	}
	return s, true
}

// Ended returns the last answers that were not sent, the oldest first.
func (q *Queue) Ended() []Ended {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.ended)
}

func (q *Queue) noteEnded(e Ended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ended) == maxEnded {
		q.ended = q.ended[1:]
	}
	q.ended = append(q.ended, e)
}
