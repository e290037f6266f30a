package session

import (
	"context"
	"errors"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

// work is one chat's worker. It ends when its line is empty; when ctx ends, it first answers the remaining actions.
func (q *actions) work(ctx context.Context, key relay.Chat, l *line) {
	for {
		q.mu.Lock()
		if len(l.waiting) == 0 {
			delete(q.lines, key)
			q.mu.Unlock()
			return
		}
		head := l.waiting[0]
		q.mu.Unlock()
		err := q.carryOut(ctx, l, head)
		if err == nil {
			continue
		}
		q.mu.Lock()
		waits := q.removeLocked(l, head) // it was not replaced, and its time was not up
		q.mu.Unlock()
		if waits {
			q.answer(head, relay.Result{}, err)
		}
	}
}

// carryOut carries out and answers a, the head of its line, or the newest action that replaced it. If it returns an
// error, nothing was begun, and the error is the answer to a.
func (q *actions) carryOut(ctx context.Context, l *line, a *action) error {
	if ctx.Err() != nil {
		return errStopping
	}
	todo, err := q.allow(ctx, l, a)
	if err != nil {
		return unsent(err)
	}
	picked, res, err := q.do(ctx, l, a, todo)
	if picked == nil {
		return unsent(err)
	}
	<-q.slots
	q.mu.Lock()
	q.held -= picked.size
	q.mu.Unlock()
	q.answer(picked, res, err)
	return nil
}

// unsent turns err into the answer to an action that was not begun.
func unsent(err error) error {
	if _, ok := errors.AsType[*relay.ActionError](err); ok {
		return err
	}
	return errWaited
}

// allow returns the action whose Allow permits a: a's own, or that of the action that a replaced. It asks the handler
// once.
func (q *actions) allow(ctx context.Context, l *line, a *action) (Action, error) {
	q.mu.Lock()
	first := a.asked == nil && a.allowed == nil
	if first {
		a.asked = make(chan struct{})
	}
	asked := a.asked
	q.mu.Unlock()
	switch {
	case first:
		q.ask(ctx, l, a)
	case asked != nil:
		<-asked
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return a.allowed, a.refusal
}

// ask makes the handler decide about a. If a is allowed, the newest waiting action that replaces a takes its place.
func (q *actions) ask(ctx context.Context, l *line, a *action) {
	err := func() (err error) {
		ctx, cancel := context.WithDeadline(ctx, a.deadline)
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				q.s.panicked("allow", v)
				err = errWaited
			}
		}()
		return a.todo.Allow(ctx)
	}()
	q.mu.Lock()
	var replaced []*action
	if a.refusal = err; err == nil {
		a.allowed = a.todo
		replaced = q.collapseLocked(l, a)
	}
	close(a.asked)
	q.mu.Unlock()
	for _, old := range replaced {
		q.replaced(old)
	}
}

// collapseLocked puts the newest of the later actions that replace a in a's place in the line, and returns the actions
// that left the line for that. q.mu must be held.
func (q *actions) collapseLocked(l *line, a *action) (gone []*action) {
	i := slices.Index(l.waiting, a)
	for j := i + 1; i >= 0 && j < len(l.waiting); {
		newer := l.waiting[j]
		if newer.asked != nil || !replaces(newer.Action, a.Action) {
			j++
			continue
		}
		gone = append(gone, l.waiting[i])
		q.waiting--
		q.held -= l.waiting[i].size
		newer.allowed, l.waiting[i] = a.todo, newer
		l.waiting = slices.Delete(l.waiting, j, j+1)
	}
	return gone
}

// replaced answers an action that a newer one made pointless.
func (q *actions) replaced(old *action) {
	q.s.o.Count(count.SessionReplaced)
	q.answer(old, replacedResult(old.Action), nil)
}

// do makes the handler carry out what it allowed for a. picked is the action that was carried out, which holds a slot;
// nil: none was. The action is picked when a slot is free, and then has the time until its own deadline. A panic of the
// handler becomes an error.
func (q *actions) do(ctx context.Context, l *line, a *action, todo Action) (picked *action, res relay.Result, err error) {
	waiting, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	end := func() {}
	defer func() {
		end()
		v := recover()
		if v == nil {
			return
		}
		q.s.panicked("action", v)
		res, err = relay.Result{}, errWaited
		if picked != nil {
			err = errTimedOut
		}
	}()
	res, err = todo.Do(waiting, func() (context.Context, relay.Request, bool) {
		select {
		case q.slots <- struct{}{}:
		case <-waiting.Done():
			return nil, relay.Request{}, false
		}
		if picked = q.pick(l, todo); picked == nil {
			<-q.slots
			return nil, relay.Request{}, false
		}
		var running context.Context
		running, end = context.WithDeadline(ctx, picked.deadline)
		return running, picked.Request, true
	})
	return picked, res, err
}

// pick removes and returns the head of the line if Allow of todo permits it: the action to which todo belongs, or one
// that replaced it. nil: there is none, because its time is up.
func (q *actions) pick(l *line, todo Action) *action {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(l.waiting) == 0 || l.waiting[0].allowed != todo {
		return nil
	}
	a := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	q.waiting--
	a.picked = true
	return a
}

// replaces reports whether newer makes an older action of its line pointless: a newer text for the same message, or
// a newer sign of work in the same thread. Both must spell their chat alike: one spelling may be refused.
func replaces(newer, older relay.Action) bool {
	switch n := newer.(type) {
	case relay.Edit:
		o, ok := older.(relay.Edit)
		return ok && o.Message == n.Message && o.Chat == n.Chat && o.Meta.ThreadID == n.Meta.ThreadID
	case relay.Typing:
		o, ok := older.(relay.Typing)
		return ok && o.Chat == n.Chat && o.Meta.ThreadID == n.Meta.ThreadID
	case relay.Draft:
		o, ok := older.(relay.Draft)
		return ok && !o.Final && o.DraftID == n.DraftID && o.Chat == n.Chat && o.Meta.ThreadID == n.Meta.ThreadID
	}
	return false
}

// replacedResult returns the answer to an action that was replaced: success, as if it had been carried out and
// overtaken at once.
func replacedResult(a relay.Action) relay.Result {
	if e, ok := a.(relay.Edit); ok {
		return relay.Result{MessageID: e.Message}
	}
	return relay.Result{}
}
