package delivery

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store"
)

// Several messages that one person sent in a row, and that wait, are given as one event: an agent that reads them whole
// answers once, while each further piece would interrupt it. The pump does not wait for more: when it takes an entry,
// it joins the messages that are there then. In the buffer they stay separate entries, and the join is not stored. So
// after a crash the entry in doubt may come again with more joined to it.

const (
	// maxJoined is how many entries are given as one event.
	maxJoined = 50
	// lonely is how many sessions must have ended with an entry in flight before the entry comes alone. So the one that
	// kills its gateways is found, and only that one is buried.
	lonely = 2
)

// add joins next to e, if the two can be one event. whole: next holds its event, and not yet its frame, so that
// settling the joined entry may take time.
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

// join adds to e the entries that follow it in its conversation.
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

// joins reports whether e may be joined with others: not if it has to come alone, or was pushed already.
func (p *Pump) joins(e store.Entry) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	return e.Deaths < lonely && e.Buffer.Seq > p.single && !p.flight.knows(e.Buffer)
}

// following returns the entry behind e: from those that wait with it, or from the lane.
func (p *Pump) following(ctx context.Context, e *load) (next store.Entry, ok bool, err error) {
	if e.waited {
		return p.followingWaiting(ctx, e)
	}
	return p.from(ctx, e.Buffer.Seq+1)
}

// from returns the first entry of the lane from seq on. The pump has looked at all entries before seq.
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
	p.dry = seq // until something is found, or Grown says otherwise
	l.mu.Unlock()
	if next, ok, err = l.buf.Next(ctx, l.inst, seq-1); ok {
		l.mu.Lock()
		p.dry = 0
		l.mu.Unlock()
	}
	return next, ok, err
}
