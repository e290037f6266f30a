package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// deathTime bounds the bookkeeping after a session died.
const deathTime = 5 * time.Second

// task is what a pump does next.
type task int

const (
	none  task = iota // it waits
	again             // push what is due once more
	take              // push the entry that was offered
	look              // read the buffer behind last
)

// taskLocked is what p is to do now: nothing without the lease, or while an acknowledgement that came to
// another pump in time is on its way to the disk. lane.mu must be held.
func (p *Pump) taskLocked() task {
	l := p.lane
	open := p.ordinaryLocked() < l.window
	switch {
	case p.flipped, l.newest != p, !p.begun && l.deleting > 0:
	case slices.ContainsFunc(p.inFlight, entry.isDue):
		return again
	case len(l.offered) > 0 && l.offered[0].Buffer.Seq == p.last+1 && (open || l.offered[0].Forward != nil):
		return take
	case open && (!p.dry || l.told > p.last), !open && p.peekLocked():
		return look
	}
	return none
}

// next looks at one entry, if there is one, and pushes it unless it is to wait.
func (p *Pump) next(ctx context.Context, t task) (err error) {
	l := p.lane
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.pushing = false
		l.changedLocked()
	}()

	e, after, ok, err := p.find(ctx, t)
	if err != nil {
		return fmt.Errorf("next delivery for %s: %w", l.inst, err)
	}
	if ok && t != again && p.pass(e) {
		return nil
	}
	if ok && p.unsettled(e, t) {
		if ok, err = p.settle(ctx, &e); err != nil || !ok {
			return err
		}
	}
	if t == again && !p.repeat(after, &e, ok) || t != again && (!ok || !p.enter(&e)) {
		return nil
	}
	err = p.pushOne(ctx, e)

	l.mu.Lock()
	f := &p.inFlight[p.indexLocked(e.Buffer)]
	if err != nil && e.Forward != nil {
		p.lane.forwards[e.Buffer].begun--
		f.out = false
	}
	if err == nil || f.again && !errors.Is(err, ErrPoison) {
		f.queued = true
		p.settleLocked(e.Buffer)
	} else {
		p.removeLocked(e.Buffer)
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrPoison):
		return fmt.Errorf("push %s for %s: %w", e.Buffer, l.inst, err)
	}
	return p.poisoned(ctx, e.Buffer, err)
}

// poisoned buries an entry that cannot be pushed.
func (p *Pump) poisoned(ctx context.Context, id relay.BufferID, why error) error {
	l := p.lane
	l.log.Error("entry buried: it cannot be pushed", "buffer", id.String(), "err", why)
	if _, err := l.buf.Bury(ctx, l.inst, id, store.DeadPoison); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("bury %s for %s: %w", id, l.inst, err)
	}
	return nil
}

// find is the entry that the task is about, the first behind after; ok is false when there is none.
func (p *Pump) find(ctx context.Context, t task) (e store.Entry, after uint64, ok bool, err error) {
	l := p.lane
	l.mu.Lock()
	after, told := p.last, l.told
	switch t {
	case take:
		e, l.offered = l.offered[0], l.offered[1:]
		l.mu.Unlock()
		return e, after, true, nil
	case again:
		i := slices.IndexFunc(p.inFlight, entry.isDue)
		if i < 0 { // acknowledged meanwhile
			l.mu.Unlock()
			return e, after, false, nil
		}
		after = p.inFlight[i].id.Seq - 1
	case look:
		p.dry = true // until something is found, or Grown says otherwise
	}
	l.mu.Unlock()
	e, ok, err = l.buf.Next(ctx, l.inst, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
	case t == again: // for repeat to judge
	case ok:
		p.dry = false
		l.forgetLocked(after, e.Buffer.Seq)
	case p.said == p.knew:
		p.last = max(p.last, told) // all of that is gone
		l.forgetLocked(after, math.MaxUint64)
	}
	return e, after, ok, err
}

// pass moves on past an entry whose bot the session does not front, and reports whether it did.
func (p *Pump) pass(e store.Entry) bool {
	if p.out.Fronts(e.About.Bot) {
		return false
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	if p.said == p.knew {
		p.last = e.Buffer.Seq
		if p.passed == 0 {
			p.passed = e.Buffer.Seq
		}
	}
	return true // or it is looked at anew
}

// enter puts e in flight, for it is about to be pushed: before it is, since the gateway may be quicker than
// push's return. It reports false for one that has been pushed before, must wait for the window, or is to be looked
// at anew.
func (p *Pump) enter(e *store.Entry) bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.said != p.knew {
		return false
	}
	known := p.indexLocked(e.Buffer) >= 0 || slices.Contains(p.gone, e.Buffer)
	as := l.formLocked(*e)
	switch {
	case known || as != asEvent:
	case p.ordinaryLocked() >= l.window:
		p.ordinary = e.Buffer.Seq
		return false
	case e.Event != nil && p.out.Settle != nil:
		return false // its forward has just come to its end
	}
	p.last = e.Buffer.Seq
	switch {
	case known, as == notNow:
		return false
	case as == taken:
		p.inFlight = append(p.inFlight, entry{id: e.Buffer, about: e.About, forward: true, queued: true, acked: true})
		p.settleLocked(e.Buffer)
		return false
	}
	p.inFlight = append(p.inFlight, entry{id: e.Buffer, about: e.About})
	p.beginLocked(e, as)
	return true
}

// repeat is enter after a Resume: found is the first in the buffer behind after, if ok. It reports
// false for one that is not to come once more, because it was acknowledged or buried after all.
func (p *Pump) repeat(after uint64, found *store.Entry, ok bool) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	id := found.Buffer
	p.inFlight = slices.DeleteFunc(p.inFlight, func(e entry) bool { // gone from the buffer
		return e.isDue() && after < e.id.Seq && (!ok || e.id.Seq < id.Seq)
	})
	i := p.indexLocked(id)
	if i < 0 || !p.inFlight[i].isDue() {
		return false
	}
	f := &p.inFlight[i]
	as := p.lane.formLocked(*found)
	if as == asEvent && found.Event != nil && p.out.Settle != nil {
		return false // as in enter
	}
	if f.due = false; as == taken || as == notNow { // by an earlier session, whose writer was slow
		p.settleLocked(id)
		return false
	}
	f.queued, f.again = false, true
	p.beginLocked(found, as)
	return true
}

// pushOne is push, guarded.
func (p *Pump) pushOne(ctx context.Context, e store.Entry) error {
	return p.guarded(e, func() error {
		if e.Forward == nil {
			return p.out.Push(ctx, e, nil)
		}
		return p.out.Push(ctx, e, func(written bool) { p.left(e.Buffer, written) })
	})
}

// guarded is what do returns about e, with a panic turned into poison: the one place where this package recovers.
func (p *Pump) guarded(e store.Entry, do func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		what := relay.PanicWords(v)
		p.lane.log.Error("push panicked", "buffer", e.Buffer.String(), "panic", what, "stack", string(debug.Stack()))
		err = fmt.Errorf("%w: %s", ErrPoison, what)
	}()
	return do()
}

// die charges the oldest entry in flight with a death after the session ended, unless it is excused.
func (p *Pump) die(ctx context.Context) error {
	l := p.lane
	l.mu.Lock()
	var oldest relay.BufferID
	if i := p.oldestLocked(); i >= 0 {
		oldest = p.inFlight[i].id
	}
	excused := p.flipped || p.failed
	l.mu.Unlock()
	if oldest.IsZero() || excused || errors.Is(context.Cause(ctx), ErrShutdown) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTime)
	defer cancel()
	dead, err := l.buf.Bury(ctx, l.inst, oldest, store.DeadDeaths)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // acknowledged, dropped or buried in the meantime
	case err != nil:
		return fmt.Errorf("record death of %s for %s: %w", oldest, l.inst, err)
	case dead:
		l.log.Error("entry is a dead letter now: its gateway died with it too often", "buffer", oldest.String())
	}
	return nil
}
