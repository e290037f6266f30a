package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hermes-connector/hermes-connector/store"
)

// task is a pump's next step.
type task int

const (
	none    task = iota // it waits
	again               // push once more what is due
	release             // push what waited for its turn
	take                // push the entry that was offered
	look                // read the buffer behind last
)

// taskLocked returns p's next step. It is none without the lease, or while an acknowledgement that another pump got in
// time is on its way to the disk. lane.mu must be held.
func (p *Pump) taskLocked() task {
	l := p.lane
	open := p.flight.ordinary() < l.window
	switch {
	case p.flipped, l.newest != p, !p.begun && l.deleting > 0:
		return none
	case slices.ContainsFunc(p.flight.entries, entry.isDue):
		return again
	}
	_, due := p.turns.next(open)
	switch {
	case due:
		return release
	case len(l.offered) > 0 && l.offered[0].Buffer.Seq == p.last+1 && (open || l.offered[0].Forward != nil):
		return take
	case open && (p.dry == 0 || p.dry > p.last+1 || l.told > p.last), !open && p.peekLocked():
		return look
	}
	return none
}

// next does the task t: it finds the entry, lets it wait or joins others to it, settles it, puts it in flight, and
// pushes it. If the push failed, the entry is in flight no longer, unless it was pushed before; an entry that can never
// be pushed is buried.
func (p *Pump) next(ctx context.Context, t task) (err error) {
	l := p.lane
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.pushing = false
		l.changedLocked()
	}()

	e, ok, err := p.find(ctx, t)
	if err == nil && ok && t != again && (t == release || !p.waits(ctx, e)) {
		err = p.join(ctx, e)
	} else if t != again {
		ok = false
	}
	if err != nil {
		return fmt.Errorf("next delivery for %s: %w", l.inst, err)
	}
	if ok && p.unsettled(e, t) {
		ok, err = p.settle(ctx, e)
	}
	if err != nil || !ok || t == again && !p.repeat(e) || t != again && !p.enter(e) {
		return err
	}
	var left func(written bool)
	if e.Forward != nil {
		left = func(written bool) { p.left(e.Buffer, written) }
	}
	err = p.out.push(ctx, &e.Entry, left)

	l.mu.Lock()
	f := &p.flight.entries[p.flight.index(e.Buffer)]
	if err != nil && e.Forward != nil {
		p.lane.forwards[e.Buffer].begun--
		f.out = false
	}
	if err == nil || f.again && !errors.Is(err, ErrPoison) {
		f.queued = true
		p.settleLocked(e.Buffer)
	} else {
		p.flight.remove(e.Buffer)
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrPoison):
		return fmt.Errorf("push %s for %s: %w", e.Buffer, l.inst, err)
	}
	return p.poisoned(ctx, e, err)
}

// poisoned buries an entry that cannot be pushed. Joined entries are not buried: they are pushed one by one.
func (p *Pump) poisoned(ctx context.Context, e *load, why error) error {
	l, id := p.lane, e.Buffer
	l.mu.Lock()
	if len(e.parts) > 1 {
		p.single = max(p.single, id.Seq)
		p.asideLocked(e)
	}
	if e.turn {
		p.turns.end(e.where)
	}
	l.mu.Unlock()
	if len(e.parts) > 1 {
		l.log.Error("messages cannot be given as one; they are given one by one", "newest", id.String(), "err", why)
		return nil
	}
	l.log.Error("entry buried: it cannot be pushed", "buffer", id.String(), "err", why)
	if err := l.buf.Bury(ctx, l.inst, id, store.DeadPoison); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("bury %s for %s: %w", id, l.inst, err)
	}
	return nil
}

// find returns the entry for the task: one in flight, one that waited, the one that was offered, or the next in the
// buffer. ok is false if there is none.
func (p *Pump) find(ctx context.Context, t task) (e *load, ok bool, err error) {
	switch t {
	case again:
		return p.findAgain(ctx)
	case release:
		return p.findWaiting(ctx)
	}
	l := p.lane
	l.mu.Lock()
	after, told := p.last, l.told
	if t == take {
		e, l.offered = newLoad(l.offered[0]), l.offered[1:]
		l.mu.Unlock()
		return e, true, nil
	}
	p.dry = after + 1 // until something is found, or Grown says otherwise
	l.mu.Unlock()
	found, ok, err := l.buf.Next(ctx, l.inst, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
	case ok:
		p.dry = 0
		l.forwards.forget(after, found.Buffer.Seq)
	case p.said == p.knew:
		p.last = max(p.last, told) // all these entries are gone
		l.forwards.forget(after, math.MaxUint64)
	}
	return newLoad(found), ok && err == nil, err
}

// findAgain returns the next entry to push once more after a Resume. If parts of it are gone it is not pushed again:
// the remaining parts wait like others.
func (p *Pump) findAgain(ctx context.Context) (e *load, ok bool, err error) {
	l := p.lane
	l.mu.Lock()
	i := slices.IndexFunc(p.flight.entries, entry.isDue)
	if i < 0 { // acknowledged meanwhile
		l.mu.Unlock()
		return e, false, nil
	}
	// was: what was pushed before.
	was := &load{Entry: store.Entry{Buffer: p.flight.entries[i].id}, parts: p.flight.entries[i].parts, where: p.flight.entries[i].where}
	l.mu.Unlock()
	for n, x := range was.parts {
		found, there, err := l.buf.Next(ctx, l.inst, x.id.Seq-1)
		if err != nil {
			return e, false, err
		}
		if there = there && found.Buffer == x.id; there && n == 0 {
			e = newLoad(found)
		} else if !there || !p.add(ctx, e, found) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if i := p.flight.index(was.Buffer); i >= 0 && p.flight.entries[i].isDue() {
				p.asideLocked(was)
			}
			return e, false, nil
		}
	}
	c, how := p.out.where(ctx, &e.Entry)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.turns.place(e, c, how, l.forwards.form(e.Entry))
	return e, true, nil
}

// enter puts e in flight just before it is pushed, because the gateway's acknowledgement may come before push returns.
// It reports false if e has been pushed before, must wait for the window, or must be looked at anew.
func (p *Pump) enter(e *load) bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.said != p.knew {
		return false
	}
	known := p.flight.knows(e.parts[0].id)
	as := l.forwards.form(e.Entry)
	switch {
	case known || as != asEvent:
	case p.flight.ordinary() >= l.window:
		if !e.waited {
			p.ordinary = e.parts[0].id.Seq
		}
		return false
	case e.Event != nil && p.out.Settle != nil:
		return false // the time of e's forward is just over, so e has to be settled first
	}
	p.last = max(p.last, e.Buffer.Seq)
	if e.waited {
		p.turns.taken(e.where, e.parts)
	}
	switch {
	case known, as == notNow:
		return false
	case as == taken:
		p.flight.entries = append(p.flight.entries, entry{id: e.Buffer, parts: e.parts, where: e.where, forward: true, queued: true, acked: true})
		p.settleLocked(e.Buffer)
		return false
	}
	p.flight.entries = append(p.flight.entries, entry{id: e.Buffer, parts: e.parts, where: e.where})
	p.beginLocked(e, as)
	return true
}

// repeat is enter after a Resume. It reports false if e must not be pushed once more, for example because it was
// acknowledged after all.
func (p *Pump) repeat(e *load) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	id := e.Buffer
	i := p.flight.index(id)
	if i < 0 || !p.flight.entries[i].isDue() {
		return false
	}
	f := &p.flight.entries[i]
	as := p.lane.forwards.form(e.Entry)
	if as == asEvent && e.Event != nil && p.out.Settle != nil {
		return false // the time of its forward is just over, so it has to be settled first
	}
	if f.due = false; as == taken || as == notNow { // pushed by an earlier session, whose writer was slow
		p.settleLocked(id)
		return false
	}
	f.queued, f.again = false, true
	p.beginLocked(e, as)
	return true
}
