package delivery

import (
	"context"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Ack deletes an entry in flight so that the next one may be pushed; it returns after the commit.
// counted is false when id is not in flight on this pump, or another pump of the lane has had
// the lease since: then nothing happened. It works after Flip, and after the pump is over, for as
// long as no other pump took over. On an error the entry is still in flight. of is what it carried.
func (p *Pump) Ack(ctx context.Context, id relay.BufferID) (of store.About, counted bool, err error) {
	l := p.lane
	taken := false
	if err := l.until(ctx, func() bool {
		i := p.indexLocked(id)
		if i >= 0 && !p.inFlight[i].queued {
			// A guess, or its push is about to return, or it goes out a second time.
			p.inFlight[i].acked = p.inFlight[i].acked || p.inFlight[i].again
			return false
		}
		// In the same breath, or a Resume could send it out again in between.
		if taken = p.takeLocked(i); taken {
			of = p.inFlight[i].about
		}
		return true
	}); err != nil || !taken {
		return store.About{}, false, err
	}

	err = l.buf.Ack(ctx, l.inst, id)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleting--
	if err != nil {
		p.failed = p.failed || ctx.Err() == nil
		if i := p.indexLocked(id); i >= 0 {
			p.inFlight[i].deleting = false
		}
		err = fmt.Errorf("drop %s for %s: %w", id, l.inst, err)
	} else {
		p.removeLocked(id)
		if p.pushing {
			p.gone = append(p.gone, id)
		}
	}
	l.changedLocked()
	return of, err == nil, err
}

// takeLocked marks the entry at i as acknowledged and its deletion as under way, or reports that the
// acknowledgement does not count. lane.mu must be held.
func (p *Pump) takeLocked(i int) bool {
	if p.lane.newest != p || i < 0 || p.inFlight[i].deleting {
		return false
	}
	p.inFlight[i].acked, p.inFlight[i].deleting = true, true
	p.lane.deleting++
	return true
}

// Flip stops the pump's pushing and returns once the push in progress, if any, is over: what is
// enqueued afterwards leaves behind the last entry. Entries in flight may still be acknowledged.
// It returns ctx's error if ctx ended before; the pump is flipped all the same.
func (p *Pump) Flip(ctx context.Context) error {
	l := p.lane
	l.mu.Lock()
	p.flipped = true
	l.mu.Unlock()
	return l.until(ctx, func() bool { return !p.pushing })
}

// Resume ends a flip, if there is one. What was pushed before it and not acknowledged comes again,
// for the gateway has been asleep since; an acknowledgement that comes first still counts. It
// never blocks.
func (p *Pump) Resume() {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.flipped {
		return
	}
	p.flipped = false
	for i := range p.inFlight {
		p.inFlight[i].due = true
	}
	l.changedLocked()
}

// oldestLocked is where the entry in flight is that was pushed first and is not acknowledged, or -1. lane.mu
// must be held.
func (p *Pump) oldestLocked() int {
	return slices.IndexFunc(p.inFlight, func(e entry) bool { return !e.acked })
}

// indexLocked is where id is in flight, or -1. lane.mu must be held.
func (p *Pump) indexLocked(id relay.BufferID) int {
	return slices.IndexFunc(p.inFlight, func(e entry) bool { return e.id == id })
}

// removeLocked takes id out of what is in flight, if it is there. lane.mu must be held.
func (p *Pump) removeLocked(id relay.BufferID) {
	if i := p.indexLocked(id); i >= 0 {
		p.inFlight = slices.Delete(p.inFlight, i, i+1)
	}
}
