package delivery

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store"
)

// What one person said in a row while it waited is given as one event: an agent that reads it whole answers once, where
// one that gets it in pieces is interrupted by each. Nothing is waited for: what is there when the pump takes the next
// entry is joined to it. In the buffer they stay the entries that they are, and nothing is stored of the join, so that
// after a crash the one in doubt may come again with more.

const (
	// maxJoined is how many entries are given as one event.
	maxJoined = 50
	// lonely is how many sessions may have ended with an entry in flight before it comes by itself: so the one that its
	// gateways die of is found, and only that one is buried.
	lonely = 2
)

// add makes next a part of e, if they are one event.
func (p *Pump) add(ctx context.Context, e *load, next store.Entry) bool {
	whole := next.Event != nil
	if !p.out.join(&e.Entry, &next) {
		return false
	}
	if e.where == (Conversation{}) {
		e.where, _ = p.out.where(ctx, &next)
	}
	e.parts = append(e.parts, part{next.Buffer, next.About})
	e.Buffer, e.About, e.settles = next.Buffer, next.About, e.settles || whole
	return true
}

// join adds to e what follows it in its conversation.
func (p *Pump) join(ctx context.Context, e *load) error {
	for p.out.Join != nil && len(e.parts) < maxJoined && e.Forward == nil && p.joins(e.Entry) {
		next, ok, err := p.following(ctx, e)
		if err != nil {
			return fmt.Errorf("entry to join to %s for %s: %w", e.Buffer, p.lane.inst, err)
		}
		if !ok || !p.joins(next) || !p.add(ctx, e, next) {
			return nil
		}
		p.lane.mu.Lock()
		if o := p.lane.offered; len(o) > 0 && o[0].Buffer == next.Buffer {
			p.lane.offered = o[1:]
		}
		p.lane.mu.Unlock()
	}
	return nil
}

// joins reports whether e may be a part of something.
func (p *Pump) joins(e store.Entry) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	return e.Deaths < lonely && e.Buffer.Seq > p.single && !p.flight.knows(e.Buffer)
}

// following is the entry behind e: of those that wait with it, or in the lane.
func (p *Pump) following(ctx context.Context, e *load) (next store.Entry, ok bool, err error) {
	if e.waited {
		return p.followingWaiting(ctx, e)
	}
	return p.from(ctx, e.Buffer.Seq+1)
}

// from is the first entry of the lane from seq on, before which all was looked at.
func (p *Pump) from(ctx context.Context, seq uint64) (next store.Entry, ok bool, err error) {
	l := p.lane
	l.mu.Lock()
	if len(l.offered) > 0 && l.offered[0].Buffer.Seq == seq {
		defer l.mu.Unlock()
		return l.offered[0], true, nil
	}
	if p.dry != 0 && p.dry <= seq && l.told < seq {
		l.mu.Unlock()
		return next, false, nil
	}
	p.dry = seq // as in find
	l.mu.Unlock()
	if next, ok, err = l.buf.Next(ctx, l.inst, seq-1); ok {
		l.mu.Lock()
		p.dry = 0
		l.mu.Unlock()
	}
	return next, ok, err
}
