package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A forward is an entry that its gateway gets as the request it came in. Gateways of June and August 2026 acknowledge
// no forward, so nothing waits for that: a forward takes no place in the window. It counts as taken when the first of
// these is true:
//
//   - its gateway acknowledged it, or anything that was pushed later on the same session;
//   - its session lived on for forwardLife after it was written, and its gateway gave a sign of life then
//     (Outlet.Answers);
//   - it was written for the second time.
//
// From store.Forward's Until on, the entry is an ordinary one, and goes out as an event.
//
// Decided: The number of times that a forward was written is kept in memory only, because a commit per push would
// double what an interaction costs. A forward that an earlier run of the program accepted counts as written once,
// whether it was or not: so kill -9, however often it happens, causes at most one more push. The entry is deleted after
// its second push, not before: a kill in between, which takes milliseconds, brings it a third time, and never loses it.

const (
	// forwardLife is how long a session must live on after a forward was written to it.
	forwardLife = 30 * time.Second
	// maxPushes is how often a forward is written.
	maxPushes = 2
	// dropTime bounds the deletion of entries that nobody acknowledged.
	dropTime = 10 * time.Second
)

// peekLocked reports whether p should read the entry behind last although the window is full, because it may be a
// forward. A forward that an earlier run of the program left waits for the window. lane.mu must be held.
func (p *Pump) peekLocked() bool { return p.lane.ahead > p.last && p.ordinary <= p.last }

// lookBackLocked makes p read the buffer again from the forward of that sequence on. lane.mu must be held.
func (p *Pump) lookBackLocked(seq uint64) {
	p.said++ // so that a read that is under way does not count
	p.last, p.ordinary, p.dry = min(p.last, seq-1), 0, 0
	l := p.lane
	l.ahead, l.told = max(l.ahead, seq), max(l.told, seq)
	l.changedLocked()
}

// beginLocked notes that e, which is in flight, is about to be pushed as a forward or as an event. lane.mu must be
// held.
func (p *Pump) beginLocked(e *load, as form) {
	f := &p.flight.entries[p.flight.index(e.Buffer)]
	if f.forward = as == asForward; !f.forward {
		f.stop()
		e.Forward = nil
		if e.turn {
			p.turns.begin(e.where)
		}
		return
	}
	l := p.lane
	n := l.forwards[e.Buffer]
	if n == nil {
		if n = new(pushes); e.Forward.Earlier {
			n.begun, n.written = 1, 1
		}
		if l.forwards == nil {
			l.forwards = make(forwards)
		}
		l.forwards[e.Buffer] = n
	}
	n.begun++
	f.out = true
}

// left notes that a push of the forward has left its outbox: written to the socket, or dropped. A dropped forward is
// pushed again; one that was written for the last time is deleted; otherwise the session has to live on for
// forwardLife. Outlet.Push calls it.
func (p *Pump) left(id relay.BufferID, written bool) {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.forwards[id]
	if n == nil {
		return // deleted meanwhile
	}
	i := p.flight.index(id)
	if i >= 0 {
		p.flight.entries[i].out = false
	}
	if !written {
		n.begun--
		l.newest.lookBackLocked(id.Seq)
		return
	}
	n.written++
	n.taken = n.taken || n.written >= maxPushes
	switch {
	case n.taken && l.newest.flight.index(id) >= 0:
		l.newest.settleLocked(id)
	case n.taken:
		l.newest.lookBackLocked(id.Seq)
	case i >= 0:
		p.liveLocked(i)
	}
}

// liveLocked makes the forward at i count as taken once the session has lived long enough. lane.mu must be held.
func (p *Pump) liveLocked(i int) {
	e := &p.flight.entries[i]
	if id := e.id; slices.Contains(p.lane.pumps, p) {
		e.stop()
		e.life = time.AfterFunc(forwardLife, func() { p.lived(id) })
	}
}

// lived makes a forward count as taken, forwardLife after it was written, if the gateway still answers. If it does not,
// the wait begins anew.
func (p *Pump) lived(id relay.BufferID) {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.flight.index(id) < 0 || !slices.Contains(l.pumps, p) {
		return
	}
	p.run(func() {
		answers := p.out.Answers(p.ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		n, i := l.forwards[id], p.flight.index(id)
		if n == nil || i < 0 || p.flight.entries[i].deleting || p.ctx.Err() != nil {
			return
		}
		if n.taken = n.taken || answers; n.taken {
			p.settleLocked(id)
		} else {
			p.liveLocked(i)
		}
	})
}

// settleLocked starts the deletion of the entry if it is a forward that counts as taken. lane.mu must be held.
func (p *Pump) settleLocked(id relay.BufferID) {
	l := p.lane
	i, n := p.flight.index(id), l.forwards[id]
	if i < 0 || n == nil || !n.taken || !slices.Contains(l.pumps, p) {
		return
	}
	e := &p.flight.entries[i]
	if !e.forward || !e.queued || e.deleting {
		return
	}
	e.stop()
	e.acked, e.deleting = true, true
	l.deleting++
	parts := e.parts
	p.run(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), dropTime)
		defer cancel()
		if err := p.drop(ctx, []relay.BufferID{id}, parts); err != nil {
			l.log.Warn("a forward was not deleted; it is tried again", "buffer", id.String(), "err", err)
		}
	})
}
