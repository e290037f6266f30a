package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// ErrShutdown is the cause a pump's context ends with when the connector itself stops. The
// entry in flight is then not charged with a death.
var ErrShutdown = errors.New("the connector is stopping")

// Start makes p pump, once the lane's previous pump is over, until ctx ends or the store or push fails. It returns at
// once; over is called at the end, with the failure, or nil if ctx ended. run starts a goroutine; p has one at a time,
// and only while it has work. If the session ended with entries in flight, the one pushed first, with everything that
// was joined to it, is charged with a death, because it may have killed its gateway. It is not charged if the session
// was flipped, an Ack failed, or the cause of ctx is ErrShutdown.
func (p *Pump) Start(ctx context.Context, run func(func()), over func(error)) {
	p.ctx, p.run, p.over = ctx, run, over
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	p.turns.since = time.Now()
	l.pumps = append(l.pumps, p)
	l.leaseLocked()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.wakeLocked()
	})
}

// leaseLocked gives the lease to the first pump. From here on no acknowledgement to another one counts.
// l.mu must be held.
func (l *Lane) leaseLocked() {
	if len(l.pumps) > 0 {
		l.newest = l.pumps[0]
		l.newest.wakeLocked()
	}
}

// wakeLocked starts p's goroutine if there is something for it to do. lane.mu must be held.
func (p *Pump) wakeLocked() {
	if !p.working && slices.Contains(p.lane.pumps, p) && (p.ctx.Err() != nil || p.taskLocked() != none) {
		p.working = true
		p.run(p.work)
	}
}

// work pushes until there is nothing to do, or p ends.
func (p *Pump) work() {
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	for p.ctx.Err() == nil {
		t := p.taskLocked()
		if t != take {
			l.offered = nil // an offered entry may be gone from the buffer when its time comes
		}
		if t == none {
			p.working = false
			return
		}
		p.begun, p.pushing, p.flight.gone, p.knew = true, true, nil, p.said
		l.mu.Unlock()
		err := p.next(p.ctx, t)
		l.mu.Lock()
		if err != nil && p.ctx.Err() == nil {
			p.endLocked(err) // the store or the push failed, not the gateway: no entry is charged with a death
			return
		}
	}
	var err error
	if l.newest == p {
		l.mu.Unlock()
		err = p.die(p.ctx)
		l.mu.Lock()
	}
	p.endLocked(err)
}

// endLocked ends p because of err: it gives the lease to the next pump, and calls over. lane.mu must be held.
func (p *Pump) endLocked(err error) {
	l := p.lane
	if l.pumps[0] == p {
		l.offered = nil
	}
	l.pumps = slices.DeleteFunc(l.pumps, func(o *Pump) bool { return o == p })
	for _, e := range p.flight.entries {
		e.stop()
	}
	for _, t := range p.turns.talks {
		t.stopTimer()
	}
	p.turns.talks, p.turns.ready = nil, nil
	l.leaseLocked()
	l.mu.Unlock()
	p.over(err)
	l.mu.Lock()
}

// deathTime bounds the bookkeeping after a session died.
const deathTime = 5 * time.Second

// die charges the first of the entries in flight with a death after the session ended, unless it is excused. If several
// messages were given as one, nobody knows which of them killed the gateway: all are charged, and from the second death
// on each comes alone.
func (p *Pump) die(ctx context.Context) error {
	l := p.lane
	l.mu.Lock()
	var oldest []relay.BufferID
	if i := p.flight.oldest(); i >= 0 {
		oldest = bufferIDs(p.flight.entries[i].parts)
	}
	excused := p.flipped || p.failed
	l.mu.Unlock()
	if oldest == nil || excused || errors.Is(context.Cause(ctx), ErrShutdown) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTime)
	defer cancel()
	dead, err := l.buf.Died(ctx, l.inst, oldest...)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // acknowledged, dropped or buried in the meantime
	case err != nil:
		return fmt.Errorf("record death of %v for %s: %w", oldest, l.inst, err)
	case dead:
		l.log.Error("entry is a dead letter now: its gateway died with it too often", "buffer", oldest[0].String())
	}
	return nil
}
