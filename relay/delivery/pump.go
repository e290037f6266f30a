package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// ErrShutdown is the cause a pump's context ends with when the connector itself stops. The
// entry in flight is then not charged with a death.
var ErrShutdown = errors.New("the connector is stopping")

// ErrPoison is what push wraps when the entry can never become a frame.
var ErrPoison = errors.New("entry cannot be encoded")

// deathTime bounds the bookkeeping after a session died.
const deathTime = 5 * time.Second

// Pump copies a lane into one session. It is run once.
type Pump struct {
	// Set once, by NewPump.
	lane *Lane
	push func(context.Context, store.Entry) error

	// Guarded by lane.mu.
	last     uint64   // sequence of the newest entry pushed or buried
	inFlight []flight // pushed and not yet deleted, oldest first
	pushing  bool     // an entry is being read or pushed
	flipped  bool
	failed   bool // the store refused a deletion: the session ends through no fault of the entry
}

// flight is an entry in flight.
type flight struct {
	id     relay.BufferID
	queued bool // push returned: from now on the gateway may have seen it
	acked  bool // its deletion is being committed
}

// NewPump makes the pump of one session. push puts an entry into that session's outbox: it
// blocks while there is no room and returns once the frame is queued. It is called by Run's
// goroutine only, one entry at a time. An error that wraps ErrPoison, or a panic, buries the
// entry; any other error means that the entry was not queued and ends Run.
func (l *Lane) NewPump(push func(context.Context, store.Entry) error) *Pump {
	return &Pump{lane: l, push: push}
}

// Run waits until the lane's previous pump returned, and pumps until ctx ends (then it returns
// nil) or the store or push fails. If the session ended with an entry in flight, the oldest one
// is charged with a death, unless the session was flipped, an Ack failed, or the cause of ctx is
// ErrShutdown. (The gateway handles entries one after the other: the oldest may have killed it.)
func (p *Pump) Run(ctx context.Context) error {
	l := p.lane
	select {
	case <-ctx.Done():
		return nil
	case l.turn <- struct{}{}:
	}
	defer func() { <-l.turn }()

	l.mu.Lock()
	previous := l.newest
	l.newest = p // from here on no acknowledgement to previous counts
	l.mu.Unlock()
	if previous != nil {
		// One that came in time may still be on its way to the disk.
		if l.until(ctx, func() bool { return !previous.deletingLocked() }) != nil {
			return nil
		}
	}

	err := p.pump(ctx)
	if ctx.Err() == nil {
		return err // our own trouble, which is no reason to blame the entry
	}
	return p.die(ctx)
}

// pump pushes until ctx ends or something fails.
func (p *Pump) pump(ctx context.Context) error {
	l := p.lane
	for {
		l.mu.Lock()
		changed := l.changed // taken before looking, so growth while looking is not missed
		open := !p.flipped && len(p.inFlight) < l.window && ctx.Err() == nil
		p.pushing = open
		after := p.last
		l.mu.Unlock()

		if open {
			more, err := p.next(ctx, after)
			if err != nil {
				return err
			}
			if more {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// next pushes the oldest entry behind after, if there is one.
func (p *Pump) next(ctx context.Context, after uint64) (more bool, err error) {
	l := p.lane
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.pushing = false
		if l.waiters > 0 {
			l.changedLocked()
		}
	}()

	e, ok, err := l.buf.NextDelivery(ctx, l.inst, after)
	if err != nil {
		return false, fmt.Errorf("next delivery for %s: %w", l.inst, err)
	}
	if !ok {
		return false, nil
	}
	// In flight before it is queued: the gateway may be quicker than push's return.
	l.mu.Lock()
	p.last = e.Buffer.Seq
	p.inFlight = append(p.inFlight, flight{id: e.Buffer})
	l.mu.Unlock()

	err = p.pushOne(ctx, e)

	l.mu.Lock()
	if err == nil {
		p.inFlight[p.indexLocked(e.Buffer)].queued = true
	} else {
		p.removeLocked(e.Buffer)
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, ErrPoison):
		return false, fmt.Errorf("push %s for %s: %w", e.Buffer, l.inst, err)
	}
	l.log.Error("entry buried: it cannot be pushed", "buffer", e.Buffer.String(), "err", err)
	if err := l.buf.Bury(ctx, l.inst, e.Buffer, store.DeadPoison); err != nil {
		return false, fmt.Errorf("bury %s for %s: %w", e.Buffer, l.inst, err)
	}
	return true, nil
}

// pushOne is push with a panic turned into poison: the one place where this package recovers.
func (p *Pump) pushOne(ctx context.Context, e store.Entry) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		// The value of a panic may quote what people wrote; a runtime error's does not.
		what := fmt.Sprintf("panic of type %T", v)
		if re, ok := v.(runtime.Error); ok {
			what = re.Error()
		}
		p.lane.log.Error("push panicked", "buffer", e.Buffer.String(), "panic", what, "stack", string(debug.Stack()))
		err = fmt.Errorf("%w: %s", ErrPoison, what)
	}()
	return p.push(ctx, e)
}

// die does the books after the session ended.
func (p *Pump) die(ctx context.Context) error {
	l := p.lane
	l.mu.Lock()
	var oldest relay.BufferID
	if i := slices.IndexFunc(p.inFlight, func(f flight) bool { return !f.acked }); i >= 0 {
		oldest = p.inFlight[i].id
	}
	excused := p.flipped || p.failed
	l.mu.Unlock()
	if oldest.IsZero() || excused || errors.Is(context.Cause(ctx), ErrShutdown) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathTime)
	defer cancel()
	dead, err := l.buf.RecordDeath(ctx, l.inst, oldest)
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
