package delivery

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// A forward is an entry that goes to its gateway as the request it came in. Gateways of June and August 2026
// acknowledge none, so nobody waits for that: it takes no place in the window, and its gateway counts as having taken
// it with its own acknowledgement, with that of anything pushed later on the same session, once the session has lived
// for forwardLife since it was written, or when it was written for the second time. From its end on (store.Forward's
// Until) the entry is an ordinary one.
//
// Decided: How often a forward was written is known in memory only, for a commit per push would double what an
// interaction costs. One that an earlier run of the program accepted counts as written once, whether it was or not: so
// kill -9, as often as it happens, brings at most one more push. The entry is deleted after its second push, not
// before: a kill in between, which takes milliseconds, brings it a third time, and never loses it.

const (
	// forwardLife is how long a session must live on after a forward was written to it.
	forwardLife = 30 * time.Second
	// maxPushes is how often a forward is written.
	maxPushes = 2
	// dropTime bounds the deletion of what nobody acknowledged.
	dropTime = 10 * time.Second
)

// pushes is what is known of one forward, over all sessions.
type pushes struct {
	begun   int  // put into an outbox, and not dropped from it
	written int  // to a socket
	taken   bool // it is only to be deleted
}

// form is what becomes of an entry that is looked at.
type form int

const (
	asEvent form = iota
	asForward
	notNow // its last push is in an outbox, from which it may be dropped
	taken
)

// formLocked is what becomes of e now. l.mu must be held.
func (l *Lane) formLocked(e store.Entry) form {
	n := l.forwards[e.Buffer]
	switch {
	case e.Forward == nil:
		return asEvent
	case n != nil && n.taken:
		return taken
	case n != nil && n.begun >= maxPushes:
		return notNow
	case !time.Now().Before(e.Forward.Until):
		return asEvent
	}
	return asForward
}

// forgetLocked forgets the forwards between two sequences: they are in the buffer no more. l.mu must be held.
func (l *Lane) forgetLocked(after, before uint64) {
	maps.DeleteFunc(l.forwards, func(id relay.BufferID, _ *pushes) bool { return after < id.Seq && id.Seq < before })
}

// peekLocked reports whether p should look behind last although the window is full: the next entry may be a
// forward. One that an earlier run of the program left waits for the window. lane.mu must be held.
func (p *Pump) peekLocked() bool { return p.lane.ahead > p.last && p.ordinary <= p.last }

// lookBackLocked has p look again at the forward of that sequence. lane.mu must be held.
func (p *Pump) lookBackLocked(seq uint64) {
	p.said++ // also if it is looking just now
	p.last, p.ordinary, p.dry = min(p.last, seq-1), 0, 0
	l := p.lane
	l.ahead, l.told = max(l.ahead, seq), max(l.told, seq)
	l.changedLocked()
}

// beginLocked notes that e, which is in flight, is about to be pushed in that form. lane.mu must be held.
func (p *Pump) beginLocked(e *load, as form) {
	f := &p.inFlight[p.indexLocked(e.Buffer)]
	if f.forward = as == asForward; !f.forward {
		f.stop()
		e.Forward = nil
		if e.turn {
			p.beginTurnLocked(e.where)
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
			l.forwards = make(map[relay.BufferID]*pushes)
		}
		l.forwards[e.Buffer] = n
	}
	n.begun++
	f.out = true
}

// left is Outlet.Push's.
func (p *Pump) left(id relay.BufferID, written bool) {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.forwards[id]
	if n == nil {
		return // deleted meanwhile
	}
	i := p.indexLocked(id)
	if i >= 0 {
		p.inFlight[i].out = false
	}
	if !written {
		n.begun--
		l.newest.lookBackLocked(id.Seq)
		return
	}
	n.written++
	n.taken = n.taken || n.written >= maxPushes
	switch {
	case n.taken && l.newest.indexLocked(id) >= 0:
		l.newest.settleLocked(id)
	case n.taken:
		l.newest.lookBackLocked(id.Seq)
	case i >= 0:
		p.liveLocked(i)
	}
}

// liveLocked has the forward at i count as taken once the session has lived long enough. lane.mu must be held.
func (p *Pump) liveLocked(i int) {
	e := &p.inFlight[i]
	if id := e.id; slices.Contains(p.lane.pumps, p) {
		e.stop()
		e.life = time.AfterFunc(forwardLife, func() { p.lived(id) })
	}
}

// stop ends the wait that liveLocked began.
func (e *entry) stop() {
	if e.life != nil {
		e.life.Stop()
		e.life = nil
	}
}

// lived takes a forward whose time is over, unless the gateway gives no sign of life: then it is asked again later.
func (p *Pump) lived(id relay.BufferID) {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.indexLocked(id) < 0 || !slices.Contains(l.pumps, p) {
		return
	}
	p.run(func() {
		answers := p.out.Answers(p.ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		n, i := l.forwards[id], p.indexLocked(id)
		if n == nil || i < 0 || p.inFlight[i].deleting || p.ctx.Err() != nil {
			return
		}
		if n.taken = n.taken || answers; n.taken {
			p.settleLocked(id)
		} else {
			p.liveLocked(i)
		}
	})
}

// settleLocked has the entry deleted if it is a forward that counts as taken. lane.mu must be held.
func (p *Pump) settleLocked(id relay.BufferID) {
	l := p.lane
	i, n := p.indexLocked(id), l.forwards[id]
	if i < 0 || n == nil || !n.taken || !slices.Contains(l.pumps, p) {
		return
	}
	e := &p.inFlight[i]
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
