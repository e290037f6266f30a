package delivery

import (
	"context"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Ack deletes an entry in flight and makes room for the next one; it returns after the commit.
// counted is false when id is not in flight on this pump, or another pump of the lane has had
// its turn since: then nothing happened. It works after Flip, and after Run returned, for as
// long as no other pump took over. On an error the entry is still in flight.
func (p *Pump) Ack(ctx context.Context, id relay.BufferID) (counted bool, err error) {
	l := p.lane
	// An id still on its way into the outbox is either a guess, or its push is about to return.
	if err := l.until(ctx, func() bool {
		i := p.indexLocked(id)
		return i < 0 || p.inFlight[i].queued
	}); err != nil {
		return false, err
	}
	l.mu.Lock()
	i := p.indexLocked(id)
	if l.newest != p || i < 0 || p.inFlight[i].acked {
		l.mu.Unlock()
		return false, nil
	}
	p.inFlight[i].acked = true
	l.mu.Unlock()

	err = l.buf.DropDelivery(ctx, l.inst, id)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		p.failed = true
		if i := p.indexLocked(id); i >= 0 {
			p.inFlight[i].acked = false
		}
		err = fmt.Errorf("drop %s for %s: %w", id, l.inst, err)
	} else {
		p.removeLocked(id)
	}
	l.changedLocked()
	return err == nil, err
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

// Resume ends a flip. The pump goes on behind the last entry it pushed. It never blocks.
func (p *Pump) Resume() {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	p.flipped = false
	l.changedLocked()
}

// indexLocked is where id is in flight, or -1. lane.mu must be held.
func (p *Pump) indexLocked(id relay.BufferID) int {
	return slices.IndexFunc(p.inFlight, func(f flight) bool { return f.id == id })
}

// removeLocked takes id out of flight, if it is there. lane.mu must be held.
func (p *Pump) removeLocked(id relay.BufferID) {
	if i := p.indexLocked(id); i >= 0 {
		p.inFlight = slices.Delete(p.inFlight, i, i+1)
	}
}

// deletingLocked reports whether an acknowledged entry's deletion is being committed. lane.mu
// must be held.
func (p *Pump) deletingLocked() bool {
	return slices.ContainsFunc(p.inFlight, func(f flight) bool { return f.acked })
}
