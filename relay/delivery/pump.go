package delivery

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
)

// Pump copies a lane into one session. It is started once.
type Pump struct {
	// Set once, by NewPump.
	lane *Lane
	out  outlet

	// Set once, by Start.
	ctx  context.Context
	run  func(func())
	over func(error)

	// Guarded by lane.mu.
	last     uint64 // sequence of the entry looked at last; everything behind it is still to be looked at
	dry      uint64 // from this sequence on the buffer was empty when p read it; 0: not known
	ordinary uint64 // sequence of the entry behind last if it is no forward and waits for the window (peekLocked)
	single   uint64 // up to this sequence nothing is joined, because a join there could not be pushed
	said     int    // how often p was told to look back
	knew     int    // said as of when the task was chosen: if said has grown since, p must look again
	flight   flight
	turns    turns
	working  bool // it has a goroutine
	begun    bool // it has had something to do
	pushing  bool // an entry is being read or pushed
	flipped  bool
	unsettle func() // ends the wait for the entry that is being settled; nil: none is
	failed   bool   // the store refused a deletion: the session ends through no fault of the entry
}

// waitsForLocked reports whether p waits for just that entry. lane.mu must be held.
func (p *Pump) waitsForLocked(e store.Entry) bool {
	offered := p.lane.offered
	ordinary := p.flight.ordinary()
	for _, o := range offered {
		if o.Forward == nil {
			ordinary++
		}
	}
	return !p.pushing && !p.flipped && e.Buffer.Seq == p.last+uint64(len(offered))+1 && (e.Forward != nil || ordinary < p.lane.window)
}

// NewPump makes the pump of one session.
func (l *Lane) NewPump(o Outlet) *Pump {
	p := &Pump{lane: l, out: newOutlet(o, l.log)}
	p.turns.mu, p.turns.wake, p.turns.types = &l.mu, p.wakeLocked, p.out.Types
	return p
}

// Anew makes p look again at the entries that the session did not take, because it takes more now. Everything that is
// in the buffer by now counts as backlog. It never blocks.
func (p *Pump) Anew() {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.turns.since = time.Now()
	p.said++
	for c, t := range p.turns.talks {
		p.turns.tidy(c, t)
	}
	p.lane.changedLocked()
}

// Flipped reports whether Flip was called and Resume was not since.
func (p *Pump) Flipped() bool {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	return p.flipped
}

// Awake calls do unless Flip was called and Resume was not since. A Flip meanwhile waits for do, which must not block.
func (p *Pump) Awake(do func()) {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	if !p.flipped {
		do()
	}
}
