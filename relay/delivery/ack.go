package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Ack deletes an entry in flight, with all that was joined to it, and the forwards pushed before it, so that the next
// one may be pushed; it returns after the commit. counted is false when id is not in flight on this pump, or another
// pump of the lane has had the lease since: then nothing happened. It works after Flip, and after the pump is over, for
// as long as no other pump took over. On an error the entry is still in flight.
func (p *Pump) Ack(ctx context.Context, id relay.BufferID) (counted bool, err error) {
	l := p.lane
	var ids []relay.BufferID // in flight
	var parts []part         // of those entries
	if err := l.until(ctx, func() bool {
		i := p.flight.index(id)
		if i >= 0 && !p.flight.entries[i].queued {
			// Either the id is a guess, or push is about to return, or the entry is being pushed a second time.
			p.flight.entries[i].acked = p.flight.entries[i].acked || p.flight.entries[i].again
			return false
		}
		// Under the same lock, because otherwise a Resume could push it again in between.
		ids, parts = p.takeLocked(i)
		return true
	}); err != nil || len(ids) == 0 {
		return false, err
	}
	if err = p.drop(ctx, ids, parts); err != nil && ctx.Err() == nil {
		l.mu.Lock()
		p.failed = true
		l.mu.Unlock()
	}
	return err == nil, err
}

// takeLocked marks the entry at i, and the forwards pushed before it, as acknowledged and being deleted. It returns
// their ids and their parts; none if the acknowledgement does not count. lane.mu must be held.
func (p *Pump) takeLocked(i int) (ids []relay.BufferID, parts []part) {
	l := p.lane
	if l.newest != p || i < 0 || p.flight.entries[i].deleting {
		return nil, nil
	}
	for j := range p.flight.entries[:i+1] {
		e := &p.flight.entries[j]
		if j < i && (!e.forward || !e.queued || e.deleting) {
			continue
		}
		e.stop()
		e.acked, e.deleting = true, true
		if n := l.forwards[e.id]; n != nil && e.forward {
			n.taken = true
		}
		ids, parts = append(ids, e.id), append(parts, e.parts...)
	}
	l.deleting++
	return ids, parts
}

// drop deletes entries in flight, which are marked, in one commit.
func (p *Pump) drop(ctx context.Context, ids []relay.BufferID, parts []part) error {
	l := p.lane
	all := bufferIDs(parts)
	err := l.buf.Ack(ctx, l.inst, all...)
	if err == nil { // before the next is pushed, which may depend on this one's effects
		for _, part := range parts {
			p.out.Taken(ctx, part.about)
		}
	}

	l.mu.Lock()
	l.deleting--
	for _, id := range ids {
		i := p.flight.index(id)
		switch {
		case err != nil && i >= 0:
			if p.flight.entries[i].deleting = false; p.flight.entries[i].forward {
				p.liveLocked(i)
			}
		case err == nil:
			p.flight.remove(id)
			delete(l.forwards, id)
		}
	}
	if err == nil && p.pushing {
		p.flight.gone = append(p.flight.gone, all...)
	}
	l.changedLocked()
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("drop %v for %s: %w", ids, l.inst, err)
	}
	return nil
}

// Flip stops the pump's pushing and returns once a push in progress is over: entries enqueued afterwards leave after
// the last one pushed. It ends the wait for an entry that is being settled. Entries in flight may still be
// acknowledged. It returns ctx's error if ctx ended before; the pump is flipped anyway.
func (p *Pump) Flip(ctx context.Context) error {
	l := p.lane
	l.mu.Lock()
	p.flipped = true
	if p.unsettle != nil {
		p.unsettle()
	}
	l.mu.Unlock()
	return l.until(ctx, func() bool { return !p.pushing })
}

// Resume ends a flip, if there is one. Entries pushed before it and not acknowledged come again, because the gateway
// has been asleep since; an acknowledgement that comes first still counts. It never blocks.
func (p *Pump) Resume() {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.flipped {
		return
	}
	p.flipped, p.turns.since = false, time.Now()
	for i := range p.flight.entries {
		e := &p.flight.entries[i]
		n := l.forwards[e.id]
		e.due = !e.forward || !e.out && n != nil && n.begun < maxPushes
	}
	for c := range p.turns.talks { // a gateway that slept runs no turns
		p.turns.end(c)
	}
	l.changedLocked()
}
