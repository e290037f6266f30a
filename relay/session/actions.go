package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const (
	// actionTime is how long after it was read an action is answered at the latest. The gateway
	// waits for 30 s.
	actionTime = 25 * time.Second
	// answerTime of it is kept back from the handler, whose own account of a deadline says more
	// than ours.
	answerTime = 250 * time.Millisecond

	maxParallel = 16  // chats acted on at once
	maxWaiting  = 256 // actions waiting in all chats
)

var (
	errUnidentified = &relay.ActionError{Outcome: relay.NotSent, Public: "network: no hello on this connection yet"}
	errStopping     = &relay.ActionError{Outcome: relay.NotSent, Public: "network: the connector is stopping"}
	errWaited       = &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent in time"}
	errTimedOut     = &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
)

// outbound takes in one action, read at at in a frame of size bytes. It never blocks.
func (s *Session) outbound(work context.Context, r relay.Request, size int, at time.Time) {
	if !s.greeted {
		s.result(r, relay.Result{}, errUnidentified)
		return
	}
	if a, ok := r.Action.(relay.UnknownAction); ok {
		s.result(r, relay.Result{}, unknown(a))
		return
	}
	s.acts.take(work, r, size, at)
}

// unknown is the answer to an operation nobody here has heard of, or whose fields do not fit.
func unknown(a relay.UnknownAction) error {
	if a.Reason != "" {
		return relay.Invalid(a.Name, a.Reason)
	}
	return relay.Unsupported(a.Name)
}

// result queues the answer to r. It never blocks.
func (s *Session) result(r relay.Request, res relay.Result, err error) {
	s.Tell(wire.OutboundResult{ID: r.ID, Op: r.Action.Op(), Result: res, Err: relay.Explain(err)})
}

// actions is a session's queue: one line per chat, as the handler tells chats apart, each with a worker
// while there is something in it.
type actions struct {
	// Set once, by newActions.
	s     *Session
	slots chan struct{} // capacity maxParallel: full while as many actions run, the next waits
	done  chan struct{} // closed once nothing more is taken and everything is answered

	running sync.WaitGroup // workers and the timers of actions

	mu      sync.Mutex // guards the fields below, and those of every action
	lines   map[relay.Chat]*line
	waiting int // in all lines
	owed    int // actions not answered yet
	refused bool
}

// line is one chat's waiting actions, oldest first. Guarded by actions.mu.
type line struct {
	waiting []*action
	// cleared is what the gateway may do, as was asked last; nil: nothing. Only likes of it are answered
	// for having been replaced, since that answer is success: who may write in a chat may not edit every
	// message there.
	cleared relay.Action
}

// action is one request on its way.
type action struct {
	// Set once.
	relay.Request
	size     int         // of its frame, in bytes; of what may be held, until nobody needs it
	deadline time.Time   // for the handler
	timer    *time.Timer // answers the action if nobody else has

	// Guarded by actions.mu.
	picked   bool
	answered bool
}

func newActions(s *Session) *actions {
	return &actions{
		s: s, slots: make(chan struct{}, maxParallel), done: make(chan struct{}),
		lines: make(map[relay.Chat]*line),
	}
}

// take queues r, or answers it at once. It never blocks; only the reader calls it.
func (q *actions) take(work context.Context, r relay.Request, size int, at time.Time) {
	a := &action{Request: r, size: size, deadline: at.Add(actionTime - answerTime)}
	old, err := q.enqueue(work, q.s.h.Line(work, q.s, r), a, at)
	switch {
	case err != nil:
		if !errors.Is(err, errStopping) {
			q.s.o.Count(count.SessionBusy)
		}
		q.s.result(r, relay.Result{}, err)
	case old != nil:
		q.replaced(old)
	}
}

// enqueue puts a into the line key, in the place of the waiting action it makes pointless, if there is
// one and it is cleared. The error is errStopping or relay.Busy.
func (q *actions) enqueue(work context.Context, key relay.Chat, a *action, at time.Time) (old *action, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused {
		return nil, errStopping
	}
	l := q.lines[key]
	i := -1
	if l != nil && l.clearsLocked(a.Action) {
		i = slices.IndexFunc(l.waiting, func(old *action) bool { return replaces(a.Action, old.Action) })
	}
	waiting, size := q.waiting+1, a.size
	if i >= 0 {
		waiting, size = waiting-1, size-l.waiting[i].size
	}
	if waiting > maxWaiting || !q.s.acting.add(size) {
		return nil, relay.Busy()
	}
	q.waiting = waiting
	q.owed++
	q.running.Add(1)
	a.timer = time.AfterFunc(time.Until(at.Add(actionTime)), func() {
		defer q.running.Done()
		q.expire(key, a)
	})
	if i >= 0 {
		old, l.waiting[i] = l.waiting[i], a
		return old, nil
	}
	if l != nil {
		if slices.ContainsFunc(l.waiting, func(old *action) bool { return replaces(a.Action, old.Action) }) {
			q.running.Go(func() { q.ask(work, l, a) })
		}
		l.waiting = append(l.waiting, a)
		return nil, nil
	}
	l = &line{waiting: []*action{a}}
	q.lines[key] = l
	q.running.Go(func() { q.work(work, key, l) })
	return nil, nil
}

// refuse takes nothing more in.
func (q *actions) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = true
	q.settledLocked()
}

// settledLocked closes done when it is time. q.mu must be held.
func (q *actions) settledLocked() {
	if q.refused && q.owed == 0 {
		select {
		case <-q.done:
		default:
			close(q.done)
		}
	}
}

// wait returns when every worker has. Nothing may be taken in any more.
func (q *actions) wait() { q.running.Wait() }

// answer sends a's result, and reports false if it has one already. It never blocks.
func (q *actions) answer(a *action, res relay.Result, err error) bool {
	q.mu.Lock()
	first := !a.answered
	a.answered = true
	q.mu.Unlock()
	if !first {
		return false
	}
	if a.timer.Stop() {
		q.running.Done()
	}
	q.s.result(a.Request, res, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.owed--
	q.settledLocked()
	return true
}

// expire answers an action whose time is up. A picked one may still come to something: its
// worker goes on, and the chat's next action waits for it.
func (q *actions) expire(key relay.Chat, a *action) {
	q.mu.Lock()
	picked := a.picked
	if !picked {
		q.removeLocked(q.lines[key], a)
	}
	q.mu.Unlock()
	err := errWaited
	if picked {
		err = errTimedOut
	}
	if q.answer(a, relay.Result{}, err) {
		q.s.o.Count(count.SessionLate)
	}
}

// removeLocked takes a out of its line, if it waits there. q.mu must be held.
func (q *actions) removeLocked(l *line, a *action) {
	if l == nil {
		return
	}
	if i := slices.Index(l.waiting, a); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		q.waiting--
		q.s.acting.add(-a.size)
	}
}

// work is one chat's worker. It ends when its line is empty, or answers what is left when ctx ends.
func (q *actions) work(ctx context.Context, key relay.Chat, l *line) {
	for {
		head := q.head(key, l)
		if head == nil {
			return
		}
		if err := q.open(ctx, l, head); err != nil {
			if q.withdraw(l, head) {
				q.answer(head, relay.Result{}, err)
			}
			continue
		}
		select {
		case q.slots <- struct{}{}:
		case <-ctx.Done():
			continue // open says so to each of them
		}
		if a := q.pick(l); a != nil {
			res, err := q.do(ctx, a)
			q.s.acting.add(-a.size)
			q.answer(a, res, err)
		}
		<-q.slots
	}
}

// head is the action next in line; without one the line is gone, and so must the worker be.
func (q *actions) head(key relay.Chat, l *line) *action {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(q.lines, key)
		return nil
	}
	return l.waiting[0]
}

// withdraw takes a out of line; false when it has been replaced, expired or answered.
func (q *actions) withdraw(l *line, a *action) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.waiting
	q.removeLocked(l, a)
	return q.waiting < before
}

// clearsLocked reports whether a and its likes may replace one another. actions.mu must be held.
func (l *line) clearsLocked(a relay.Action) bool {
	return l.cleared != nil && replaces(a, l.cleared)
}

// ask clears a and its likes if the gateway may do that. If not, Do says why.
func (q *actions) ask(ctx context.Context, l *line, a *action) {
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			q.s.panicked("gate", v)
		}
	}()
	if q.s.h.May(ctx, q.s, a.Request) == nil {
		q.clear(l, a.Action)
	}
}

func (q *actions) isCleared(l *line, a relay.Action) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return l.clearsLocked(a)
}

// clear lets newer likes of a replace older ones in the line, those that wait in it already too.
func (q *actions) clear(l *line, a relay.Action) {
	if e, ok := a.(relay.Edit); ok {
		e.Content = "" // is not what makes them alike
		a = e
	}
	var replaced []*action
	q.mu.Lock()
	l.cleared = a
	for i := 0; i < len(l.waiting); i++ {
		for j := i + 1; j < len(l.waiting); {
			old, newer := l.waiting[i], l.waiting[j]
			if !l.clearsLocked(old.Action) || !replaces(newer.Action, old.Action) {
				j++
				continue
			}
			replaced = append(replaced, old)
			q.waiting--
			q.s.acting.add(-old.size)
			l.waiting[i] = newer
			l.waiting = slices.Delete(l.waiting, j, j+1)
		}
	}
	q.mu.Unlock()
	for _, old := range replaced {
		q.replaced(old)
	}
}

// replaced answers an action that a newer one made pointless.
func (q *actions) replaced(old *action) {
	q.s.o.Count(count.SessionReplaced)
	q.answer(old, replacedResult(old.Action), nil)
}

// pick takes the next action out of line, to be carried out. It may be another one than the gate
// was opened for: a newer edit, or the one behind if time ran out.
func (q *actions) pick(l *line) *action {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	a := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	q.waiting--
	a.picked = true
	return a
}

// open waits until a, the head of line, could leave, and clears it before if others can replace it. An error is a's
// answer, always one that says it was not sent.
func (q *actions) open(ctx context.Context, l *line, a *action) (err error) {
	if ctx.Err() != nil {
		return errStopping
	}
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			q.s.panicked("gate", v)
			err = errWaited
		}
	}()
	if replaces(a.Action, a.Action) && !q.isCleared(l, a.Action) {
		q.ask(ctx, l, a)
	}
	switch a.Action.(type) {
	case relay.Typing, relay.React:
		return nil // dropped by the platform rather than kept for later
	}
	err = q.s.h.WaitOpen(ctx, q.s, a.Request)
	var ae *relay.ActionError
	switch {
	case err == nil || errors.As(err, &ae):
		return err
	default:
		return errWaited
	}
}

// do has the handler carry a out.
func (q *actions) do(ctx context.Context, a *action) (res relay.Result, err error) {
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			q.s.panicked("action", v)
			res, err = relay.Result{}, errTimedOut
		}
	}()
	return q.s.h.Do(ctx, q.s, a.Request)
}
