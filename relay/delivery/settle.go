package delivery

import (
	"context"
	"fmt"
)

// An entry that holds its event is settled before it is pushed: only then the gateway's view of it is known, which may
// be worth waiting for. Meanwhile the entry is not in flight: nobody can acknowledge it, and the end of the session is
// not charged to it. Entries behind it wait, because they come after it.

// unsettled reports whether e is to be settled now: if it were ready, it would be pushed as an event.
func (p *Pump) unsettled(e *load, t task) bool {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Event == nil || p.out.Settle == nil || l.forwards.form(e.Entry) != asEvent {
		return false
	}
	if t == again {
		i := p.flight.index(e.Buffer)
		return i >= 0 && p.flight.entries[i].isDue()
	}
	return !p.flight.knows(e.parts[0].id) && p.said == p.knew && p.flight.ordinary() < l.window
}

// settle makes e ready for the push. ok is false if it must not be pushed now: the pump was flipped or its session
// ended meanwhile, or a part of e has left the buffer.
func (p *Pump) settle(ctx context.Context, e *load) (ok bool, err error) {
	l := p.lane
	settling, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	if p.flipped {
		cancel()
	}
	p.unsettle = cancel // for Flip
	l.mu.Unlock()
	err = p.out.settle(settling, &e.Entry)
	e.Event = nil
	l.mu.Lock()
	p.unsettle = nil
	l.mu.Unlock()
	switch {
	case settling.Err() != nil:
		return false, nil
	case err != nil:
		return false, p.poisoned(ctx, e, err)
	case !e.settles: // it took no time
		return true, nil
	}
	for _, x := range e.parts {
		now, there, err := l.buf.Next(ctx, l.inst, x.id.Seq-1)
		if err != nil {
			return false, fmt.Errorf("settled delivery for %s: %w", l.inst, err)
		}
		if !there || now.Buffer != x.id {
			return false, nil
		}
	}
	return true, nil
}
