package delivery

import (
	"context"
	"errors"
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

// Outlet is what a pump needs of its session.
type Outlet struct {
	// Push puts an entry into the session's outbox: it blocks while the outbox is full and returns once the frame is
	// queued. The pump's goroutine calls it, one entry at a time. An error that wraps ErrPoison, or a panic, buries
	// the entry; any other error means that the entry was not queued and ends the pump. Of an entry with a Forward
	// that is pushed. left is nil, or to be called once if the entry was queued: when its frame was written, or
	// was dropped and never will be.
	Push func(ctx context.Context, e store.Entry, left func(written bool)) error
	// Settle makes an entry that holds its event ready for Push: it sets the frame. It is called like Push, before the
	// entry is in flight, and may wait; ctx ends with a Flip, too, and then what it did is dropped. An error otherwise,
	// or a panic, buries the entry. nil: entries that hold their event are pushed as they are.
	Settle func(ctx context.Context, e *store.Entry) error
	// Join makes next a part of e, which is then given as one event, under next's id: it sets e's event. False: they are
	// no one event, and e is as before. It is called like Push, and does not wait; nil: nothing is joined.
	Join func(e *store.Entry, next store.Entry) bool
	// Where tells in which conversation an entry is said. An urgent one waits for no turn, for it ends one or answers
	// its question. It is called like Push; nil: in none.
	Where func(e store.Entry) (c Conversation, urgent bool)
	// Takes tells whether the session takes the entry now; nil: it takes all. One that it does not take stays in the
	// buffer, and those behind it are pushed. It is called like Push. When a no becomes a yes, Anew must be called.
	Takes func(ctx context.Context, e store.Entry) bool
	// Answers asks the gateway for a sign of life; nil: it lives for as long as the pump.
	Answers func(ctx context.Context) bool
	// Taken is called for every entry that the gateway has taken, after the commit; nil: nobody wants to know.
	Taken func(context.Context, store.About)
}

// Pump copies a lane into one session. It is started once.
type Pump struct {
	// Set once, by NewPump.
	lane *Lane
	out  Outlet

	// Set once, by Start.
	ctx  context.Context
	run  func(func())
	over func(error)

	// Guarded by lane.mu.
	last     uint64    // sequence of the entry looked at last; everything behind it is still to be looked at
	dry      uint64    // from this sequence on there is nothing but what the lane was told of since; 0: who knows
	ordinary uint64    // the entry behind last is no forward, if its sequence is this; see peekLocked
	since    time.Time // what was accepted before is backlog
	talks    map[Conversation]*talk
	ready    []Conversation   // those of talks in which something waits that may be pushed
	single   uint64           // up to this sequence nothing is joined, for it could not be pushed as one
	said     int              // how often p was told to look back
	knew     int              // said, when the task was chosen: a bot said since is not missed
	inFlight []entry          // pushed and not yet deleted, in the order they were pushed first
	gone     []relay.BufferID // deleted while pushing: what is being read may be one of them
	working  bool             // it has a goroutine
	begun    bool             // it has had something to do
	pushing  bool             // an entry is being read or pushed
	flipped  bool
	unsettle func() // ends the wait for the entry that is being settled; nil: none is
	failed   bool   // the store refused a deletion: the session ends through no fault of the entry
}

// entry is one in flight, or several that were joined: its id is that of the newest.
type entry struct {
	id       relay.BufferID
	parts    []part // oldest first
	where    Conversation
	queued   bool        // push returned: from now on the gateway may have seen it
	due      bool        // to be pushed once more, after a Resume
	again    bool        // pushed before a Resume too, so the gateway may have seen it
	acked    bool        // acknowledged, though it may not have come to its deletion
	deleting bool        // its deletion is being committed
	forward  bool        // it went as a forward
	out      bool        // a forward: in the outbox, so neither written nor dropped
	life     *time.Timer // a forward that was written: it counts as taken when this fires
}

// isDue reports whether e is still to be pushed once more.
func (e entry) isDue() bool { return e.due && !e.acked }

// waitsForLocked reports whether p waits for just that entry. lane.mu must be held.
func (p *Pump) waitsForLocked(e store.Entry) bool {
	offered := p.lane.offered
	ordinary := p.ordinaryLocked()
	for _, o := range offered {
		if o.Forward == nil {
			ordinary++
		}
	}
	return !p.pushing && !p.flipped && e.Buffer.Seq == p.last+uint64(len(offered))+1 && (e.Forward != nil || ordinary < p.lane.window)
}

// ordinaryLocked is how many entries are in flight and fill the window. lane.mu must be held.
func (p *Pump) ordinaryLocked() (n int) {
	for _, e := range p.inFlight {
		if !e.forward {
			n++
		}
	}
	return n
}

// NewPump makes the pump of one session.
func (l *Lane) NewPump(o Outlet) *Pump {
	if o.Takes == nil {
		o.Takes = func(context.Context, store.Entry) bool { return true }
	}
	if o.Answers == nil {
		o.Answers = func(context.Context) bool { return true }
	}
	if o.Taken == nil {
		o.Taken = func(context.Context, store.About) {}
	}
	if o.Where == nil {
		o.Where = func(e store.Entry) (Conversation, bool) {
			return Conversation{Chat: relay.Chat{Bot: e.About.Bot}}, false
		}
	}
	return &Pump{lane: l, out: o}
}

// Anew says that the session takes more than before: what was passed over is looked at again, and all that has gathered
// is backlog. It never blocks.
func (p *Pump) Anew() {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.since = time.Now()
	p.said++
	for c, t := range p.talks {
		p.tidyLocked(c, t)
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

// Start has p pump, once the lane's previous pump is over, until ctx ends or the store or push fails. It returns at
// once; over is called at the end, with the failure, or nil when ctx ended. run starts a goroutine; p has one at a
// time, and only while it has something to do. If the session ended with entries in flight, the one pushed first, with all
// that was joined to it, is charged with a death, for it may have killed its gateway, unless the session was flipped, an
// Ack failed, or the cause of ctx is ErrShutdown.
func (p *Pump) Start(ctx context.Context, run func(func()), over func(error)) {
	p.ctx, p.run, p.over = ctx, run, over
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	p.since = time.Now()
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
			l.offered = nil // it may be gone from the buffer when its time comes
		}
		if t == none {
			p.working = false
			return
		}
		p.begun, p.pushing, p.gone, p.knew = true, true, nil, p.said
		l.mu.Unlock()
		err := p.next(p.ctx, t)
		l.mu.Lock()
		if err != nil && p.ctx.Err() == nil {
			p.endLocked(err) // our own trouble, which is no reason to blame the entry
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

// endLocked lets go of the lane, and tells the owner. lane.mu must be held.
func (p *Pump) endLocked(err error) {
	l := p.lane
	if l.pumps[0] == p {
		l.offered = nil
	}
	l.pumps = slices.DeleteFunc(l.pumps, func(o *Pump) bool { return o == p })
	for _, e := range p.inFlight {
		e.stop()
	}
	for _, t := range p.talks {
		t.stop()
	}
	p.talks, p.ready = nil, nil
	l.leaseLocked()
	l.mu.Unlock()
	p.over(err)
	l.mu.Lock()
}
