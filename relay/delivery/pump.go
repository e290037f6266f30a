package delivery

import (
	"context"
	"errors"
	"fmt"
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
	lane   *Lane
	push   func(context.Context, store.Entry) error
	fronts func(relay.Bot) bool

	// Guarded by lane.mu.
	last     uint64           // sequence of the entry looked at last; everything behind it is still to be looked at
	passed   uint64           // sequence of the oldest entry passed over because its bot is not fronted; 0: none
	said     int              // how often Fronted was called
	inFlight []flight         // pushed and not yet deleted, in the order they were pushed first
	landed   []relay.BufferID // deleted while pushing: what is being read may be one of them
	pushing  bool             // an entry is being read or pushed
	flipped  bool
	failed   bool // the store refused a deletion: the session ends through no fault of the entry
}

// flight is an entry in flight.
type flight struct {
	id       relay.BufferID
	queued   bool // push returned: from now on the gateway may have seen it
	due      bool // to be pushed once more, after a Resume
	again    bool // pushed before a Resume too, so the gateway may have seen it
	acked    bool // acknowledged, though it may not have come to its deletion
	deleting bool // its deletion is being committed
}

// isDue reports whether f is still to be pushed once more.
func (f flight) isDue() bool { return f.due && !f.acked }

// NewPump makes the pump of one session. push puts an entry into that session's outbox: it
// blocks while there is no room and returns once the frame is queued. It is called by Run's
// goroutine only, one entry at a time. An error that wraps ErrPoison, or a panic, buries the
// entry; any other error means that the entry was not queued and ends Run. An entry of a bot that
// fronts says no to stays in the buffer, and those behind it are pushed; nil: every bot is fronted.
// fronts is called like push. A no may become a yes, which Fronted must be told, and never the reverse.
func (l *Lane) NewPump(push func(context.Context, store.Entry) error, fronts func(relay.Bot) bool) *Pump {
	if fronts == nil {
		fronts = func(relay.Bot) bool { return true }
	}
	return &Pump{lane: l, push: push, fronts: fronts}
}

// Fronted says that the session fronts more bots than before: what was passed over is looked at
// again. It never blocks.
func (p *Pump) Fronted() {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.said++
	if p.passed > 0 {
		p.last, p.passed = min(p.last, p.passed-1), 0
	}
	p.lane.changedLocked()
}

// Flipped reports whether Flip was called and Resume was not since.
func (p *Pump) Flipped() bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	return p.flipped
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
	l.newest = p // from here on no acknowledgement to another pump counts
	l.mu.Unlock()
	// One that came in time may still be on its way to the disk.
	if l.until(ctx, func() bool { return l.deleting == 0 }) != nil {
		return nil
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
		room := len(p.inFlight) < l.window || slices.ContainsFunc(p.inFlight, flight.isDue)
		open := !p.flipped && room && ctx.Err() == nil
		p.pushing = open
		p.landed = nil
		after, again := p.last, false
		if i := slices.IndexFunc(p.inFlight, flight.isDue); i >= 0 {
			after, again = p.inFlight[i].id.Seq-1, true
		}
		l.mu.Unlock()

		if open {
			more, err := p.next(ctx, after, again)
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

// next looks at the oldest entry behind after, if there is one, and pushes it unless it is to wait.
// again: behind after lies one that is to come once more, and nothing else is to be pushed.
func (p *Pump) next(ctx context.Context, after uint64, again bool) (more bool, err error) {
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
	switch {
	case again:
		if !p.relaunch(after, e.Buffer, ok) {
			return true, nil
		}
	case !ok:
		return false, nil
	case p.pass(e) || !p.launch(e.Buffer):
		return true, nil
	}
	err = p.pushOne(ctx, e)

	l.mu.Lock()
	f := &p.inFlight[p.indexLocked(e.Buffer)]
	if err == nil || f.again && !errors.Is(err, ErrPoison) {
		f.queued = true
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

// pass moves on past an entry whose bot the session does not front, and reports whether it did.
func (p *Pump) pass(e store.Entry) bool {
	l := p.lane
	l.mu.Lock()
	said := p.said // taken before asking, so that a bot said meanwhile is not missed
	l.mu.Unlock()
	if p.fronts(e.About.Bot) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.said == said {
		p.last = e.Buffer.Seq
		if p.passed == 0 {
			p.passed = e.Buffer.Seq
		}
	}
	return true // or it is looked at anew
}

// launch notes that id is about to be pushed: before it is, for the gateway may be quicker than
// push's return. It reports false for one that has been pushed before.
func (p *Pump) launch(id relay.BufferID) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.last = id.Seq
	if p.indexLocked(id) >= 0 || slices.Contains(p.landed, id) {
		return false
	}
	p.inFlight = append(p.inFlight, flight{id: id})
	return true
}

// relaunch is launch after a Resume: id is the first in the buffer behind after, if ok. It reports
// false for one that is not to come once more, because it was acknowledged or buried after all.
func (p *Pump) relaunch(after uint64, id relay.BufferID, ok bool) bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.inFlight = slices.DeleteFunc(p.inFlight, func(f flight) bool { // gone from the buffer
		return f.isDue() && after < f.id.Seq && (!ok || f.id.Seq < id.Seq)
	})
	i := p.indexLocked(id)
	if i < 0 || !p.inFlight[i].isDue() {
		return false
	}
	p.inFlight[i].due, p.inFlight[i].queued, p.inFlight[i].again = false, false, true
	return true
}

// pushOne is push with a panic turned into poison: the one place where this package recovers.
func (p *Pump) pushOne(ctx context.Context, e store.Entry) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		what := relay.PanicWords(v)
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
	if i := p.oldestLocked(); i >= 0 {
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
