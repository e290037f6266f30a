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
	// actionTime is how long after it was read an action is answered at the latest. The gateway waits for 30 s.
	actionTime = 25 * time.Second
	// answerTime is how much earlier the handler's time ends: its error says more about what happened than the
	// session's own.
	answerTime = 250 * time.Millisecond

	maxParallel = 16  // chats acted on at once
	maxWaiting  = 256 // actions waiting in all chats
	// maxActing bounds the frames of the actions that wait and run, in bytes: one of the largest, or 256 usual ones.
	maxActing = wire.MaxFrame
)

var (
	errUnidentified = relay.Later("no hello on this connection yet", nil)
	errStopping     = relay.Later("the connector is stopping", nil)
	errWaited       = relay.Later("not sent in time", nil)
	errTimedOut     = relay.Unclear("", nil)
)

// outbound queues or answers one action, which was read at the time at in a frame of size bytes. It never blocks.
func (s *Session) outbound(work context.Context, r relay.Request, size int, at time.Time) {
	if !s.greeted {
		s.result(r, relay.Result{}, errUnidentified)
		return
	}
	switch a, unknown := r.Action.(relay.UnknownAction); {
	case unknown && a.Reason != "":
		s.result(r, relay.Result{}, relay.Invalid(a.Name, a.Reason))
	case unknown:
		s.h.Unknown(work)
		s.result(r, relay.Result{}, relay.Unsupported(a.Name))
	default:
		s.acts.take(work, r, size, at)
	}
}

// result queues the answer to r. It never blocks.
func (s *Session) result(r relay.Request, res relay.Result, err error) {
	s.Tell(wire.OutboundResult{ID: r.ID, Op: r.Action.Op(), Result: res, Err: relay.Explain(err)})
}

// actions is a session's queue: one line per chat, as the handler distinguishes chats (Action.Line), each with a worker
// while there is something in it.
type actions struct {
	// Set once, by newActions.
	s    *Session
	done chan struct{} // closed once nothing more is taken and everything is answered

	// Made with the first action, before its worker: most sessions never have one.
	slots chan struct{} // capacity maxParallel: full while as many actions run, the next waits

	running sync.WaitGroup // workers, calls of Allow ahead of them, and the timers of actions

	mu      sync.Mutex           // guards the fields below, and those of every action
	lines   map[relay.Chat]*line // made with slots
	waiting int                  // in all lines
	owed    int                  // actions not answered yet
	held    int                  // bytes of the frames of actions that wait or run, at most maxActing
	refused bool
}

// line holds one chat's waiting actions, oldest first. actions.mu guards it.
type line struct{ waiting []*action }

// action is one request on its way.
type action struct {
	// Set once.
	relay.Request
	todo     Action
	size     int         // of its frame, in bytes; taken from the budget until nobody needs it
	deadline time.Time   // for the handler
	timer    *time.Timer // answers the action if nobody else has

	// Guarded by actions.mu.
	asked    chan struct{} // closed once todo.Allow has answered; nil: it was not asked
	allowed  Action        // the action whose Allow was asked: todo, or that of the action this one replaced; nil: not allowed
	refusal  error         // Allow's error; nil: none
	picked   bool
	answered bool
}

func newActions(s *Session) *actions {
	return &actions{s: s, done: make(chan struct{})}
}

// take queues r, or answers it at once. It never blocks; only the reader calls it.
func (q *actions) take(work context.Context, r relay.Request, size int, at time.Time) {
	a := &action{Request: r, todo: q.s.h.Action(work, r), size: size, deadline: at.Add(actionTime - answerTime)}
	old, err := q.enqueue(work, a, at)
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

// enqueue puts a into its line: in the place of an allowed action that a replaces, which is old, or at the end. The
// error is errStopping or relay.Busy.
func (q *actions) enqueue(work context.Context, a *action, at time.Time) (old *action, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused {
		return nil, errStopping
	}
	key := a.todo.Line()
	l := q.lines[key]
	i := -1
	if l != nil {
		i = slices.IndexFunc(l.waiting, func(old *action) bool { return replaces(a.Action, old.Action) })
	}
	replace := i >= 0 && l.waiting[i].allowed != nil
	waiting, size := q.waiting+1, a.size
	if replace {
		waiting, size = waiting-1, size-l.waiting[i].size
	}
	if waiting > maxWaiting || q.held+size > maxActing && size > 0 {
		return nil, relay.Busy()
	}
	q.waiting, q.held = waiting, q.held+size
	q.owed++
	q.running.Add(1)
	a.timer = time.AfterFunc(time.Until(at.Add(actionTime)), func() {
		defer q.running.Done()
		q.expire(key, a)
	})
	switch {
	case replace:
		old = l.waiting[i]
		a.allowed, l.waiting[i] = old.allowed, a
	case l == nil:
		l = &line{waiting: []*action{a}}
		if q.lines == nil {
			q.slots, q.lines = make(chan struct{}, maxParallel), make(map[relay.Chat]*line)
		}
		q.lines[key] = l
		q.running.Go(func() { q.work(work, key, l) })
	default:
		if i >= 0 && l.waiting[i].asked == nil { // asked ahead: once allowed, it can be replaced where it waits
			first := l.waiting[i]
			first.asked = make(chan struct{})
			q.running.Go(func() { q.ask(work, l, first) })
		}
		l.waiting = append(l.waiting, a)
	}
	return old, nil
}

// refuse makes the queue refuse all further actions. It is called once.
func (q *actions) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = true
	q.settledLocked()
}

// settledLocked closes done if further actions are refused and all earlier ones are answered. q.mu must be held.
func (q *actions) settledLocked() {
	if q.refused && q.owed == 0 {
		close(q.done)
	}
}

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

// expire answers an action whose time is up. If it was picked, it may still be carried out: its worker continues, and
// the chat's next action waits for it.
func (q *actions) expire(key relay.Chat, a *action) {
	q.mu.Lock()
	picked := a.picked
	if l := q.lines[key]; !picked && l != nil {
		q.removeLocked(l, a)
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

// removeLocked takes a out of its line, and reports whether it waited there. q.mu must be held.
func (q *actions) removeLocked(l *line, a *action) bool {
	i := slices.Index(l.waiting, a)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	q.waiting--
	q.held -= a.size
	return true
}
