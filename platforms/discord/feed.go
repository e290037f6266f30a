package discord

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxBatch is how many dispatches are handed in at once.
	maxBatch = 100
	// lastWrite bounds the write of the state at the end.
	lastWrite = 5 * time.Second
)

// feeder hands the items of the queue to the inbox, in order. Only it calls Accept and stores the state.
type feeder struct {
	*Bot
	in      platforms.Inbox
	queue   *queue
	catchup catchup
}

// run hands in events until ctx ends. In each round it does the first that is due: store an urgent change of the state,
// catch up, or hand in queued items. At the end it hands in the held events and stores the state; Discord sends events
// of the socket again that were not accepted by then.
func (f *feeder) run(ctx context.Context) {
	if f.memory.read().Gap != 0 { // the last process was interrupted while it caught up
		f.catchup.plan()
	}
	whole := true // all items taken out of the queue were accepted
	for whole && ctx.Err() == nil {
		n, _, changed := f.queue.look()
		in, missing := f.catchup.in()
		switch {
		case f.memory.wanting():
			f.hand(ctx, platforms.Batch{}, true, func(*state) {})
		case missing && in <= 0:
			f.catchUp(ctx)
		case n > 0:
			whole = f.feed(ctx, f.queue.take(maxBatch))
		default:
			var due <-chan time.Time
			if missing {
				due = time.After(in)
			}
			select {
			case <-changed:
			case <-f.memory.changed:
			case <-due:
			case <-ctx.Done():
			}
		}
	}
	if whole {
		f.skip()
	}
	f.handHeld(ctx)
	f.keepLast(ctx)
}

// feed hands in items, which one call of queue.take returned, and moves the state past them. It returns false when ctx
// ended before they were accepted.
func (f *feeder) feed(ctx context.Context, items []item) bool {
	if begun := items[0].begun; begun != nil {
		f.begin(*begun)
		return f.hand(ctx, platforms.Batch{Roster: items[0].roster}, false, func(*state) {})
	}
	var b platforms.Batch
	last, seen := int64(0), guilds.ID(0)
	for _, i := range items {
		last = max(last, i.seq)
		if i.kind == kindMessage && f.catchup.recent[idOf(i.data)] || f.holding.givenUp(i) {
			continue
		}
		if !f.add(ctx, &b, i) {
			return false
		}
		if i.kind != "" && i.held == nil { // events from HTTP say nothing about the state of the socket
			seen = max(seen, idOf(i.data))
		}
	}
	advance := func(s *state) {
		s.Session.Seq = max(s.Session.Seq, last)
		s.Seen = max(s.Seen, seen)
	}
	if len(b.Events)+len(b.Undecodable)+len(b.Roster) == 0 {
		f.memory.change(false, advance) // nothing to hand in: the next write of the state includes this change
		f.holding.release(items)
		return true
	}
	return f.hand(ctx, b, worthStoring(b), advance, items...)
}

// worthStoring reports whether the state is stored with b: not for a roster, which does not outlive the process,
// nor for the bot's own messages, which may come again.
func worthStoring(b platforms.Batch) bool {
	return len(b.Undecodable) > 0 || slices.ContainsFunc(b.Events, func(ev relay.Event) bool { return !ev.Traits.Own })
}

// begin makes s the current session. Messages from between the old session and s must be fetched.
func (f *feeder) begin(s gateway.Session) {
	f.memory.change(true, func(st *state) {
		st.Session = s
		switch {
		case st.Seen == 0: // the first session ever: earlier messages are not for the bot
			st.Seen = guilds.At(time.Now().Add(-clockSlack))
		case st.Gap == 0:
			st.Gap = st.Seen
		}
		if st.Gap != 0 {
			f.catchup.plan()
		}
	})
}

// The dispatches that become events.
const (
	kindMessage     = "MESSAGE_CREATE"
	kindInteraction = "INTERACTION_CREATE"
)

// add puts the event of i, or its fault, into b. It returns false when ctx ended first.
func (f *feeder) add(ctx context.Context, b *platforms.Batch, i item) bool {
	b.Roster = append(b.Roster, i.roster...)
	if i.err != nil {
		f.quarantine(b, i.data, i.err)
		return true
	}
	if i.kind == "" {
		return true
	}
	var ev *relay.Event
	var capability *platforms.Capability
	var err error
	wait := gateway.Retries(f.opts)
	if !wait.Keep(ctx, func() error {
		if ev, capability, err = f.normalise(ctx, i); errors.Is(err, guilds.ErrUnknownYet) {
			return err
		}
		return nil
	}, func(err error, in time.Duration) {
		f.status.SetStuck("the channel of a message cannot be looked up: " + err.Error())
		f.log.Warn("discord channel not looked up; trying again", "in", in, "err", err)
	}) {
		return false
	}
	f.status.SetStuck("")
	if err != nil {
		f.quarantine(b, i.data, err)
		if i.press != nil {
			f.holding.orphan(i.press)
		}
	}
	if ev != nil {
		b.Events = append(b.Events, *ev)
		f.catchup.met(ev.Source)
	}
	if capability != nil {
		f.absent.Note(ev.MessageID)
		b.Capabilities = append(b.Capabilities, *capability)
		if f.reader.passthrough {
			b.Forwards = append(b.Forwards, f.reader.forward(i.press, ev, capability))
		}
	}
	return true
}

// normalise reads one dispatch; a panic counts as its error.
func (f *feeder) normalise(ctx context.Context, i item) (ev *relay.Event, capability *platforms.Capability, err error) {
	defer func() {
		if v := recover(); v != nil {
			ev, capability, err = nil, nil, errors.New("panic: "+relay.PanicWords(v))
		}
	}()
	if i.press != nil {
		return f.reader.interaction(ctx, i.press)
	}
	ev, err = f.reader.message(ctx, i.data, i.scope)
	return ev, nil, err
}

func (f *feeder) quarantine(b *platforms.Batch, raw []byte, err error) {
	b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: raw, Err: err})
	f.log.Warn("discord event makes no sense; kept in quarantine", "err", err)
}

// hand hands in b, made of items, until it is accepted, and then applies advance. If store is true, the state is stored
// with b. hand returns false if ctx ended first.
func (f *feeder) hand(ctx context.Context, b platforms.Batch, store bool, advance func(*state), items ...item) bool {
	retry := gateway.Retries(f.opts)
	b.Refused = f.refused(slices.Clone(b.Capabilities)) // a clone, because prune changes b's own list
	return retry.Keep(ctx, func() error {
		f.holding.prune(&b, items)
		raw, version, owed := f.memory.draft(advance)
		if store {
			b.Cursor, b.Save = raw, owed
		}
		if err := f.in.Accept(ctx, b); err != nil {
			return err
		}
		f.status.SetStuck("")
		f.holding.release(items)
		if store {
			f.memory.keep(version, advance)
		} else {
			f.memory.change(false, advance)
		}
		return nil
	}, func(err error, in time.Duration) {
		f.status.SetStuck("what Discord sent cannot be stored; it is kept in memory, and by Discord")
		f.log.Warn("discord events not stored; trying again", "events", len(b.Events), "in", in, "err", err)
	})
}

// skip moves the state past the items at the front of the queue that the inbox does not need, and past the beginning of
// a session, so that a restart resumes the newest session.
func (f *feeder) skip() {
	for {
		items := f.queue.take(maxQueued)
		for _, i := range items {
			switch {
			case i.begun != nil:
				f.begin(*i.begun)
			case i.held != nil: // handHeld hands it in
			case i.kind != "" || i.err != nil:
				return // Discord must send it again
			default:
				f.memory.change(false, func(s *state) { s.Session.Seq = max(s.Session.Seq, i.seq) })
			}
		}
		if len(items) == 0 {
			return
		}
	}
}

// handHeld hands in the events that came over HTTP and are still held; nobody sends them again. An event that cannot be
// stored soon is given up, and its placeholder removed.
func (f *feeder) handHeld(ctx context.Context) {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	for items := range slices.Chunk(f.holding.left(), maxBatch) {
		var b platforms.Batch
		for _, i := range items {
			if !f.add(soon, &b, i) {
				break
			}
		}
		f.hand(soon, b, false, func(*state) {}, items...)
	}
	orphans, givenUp, _ := f.holding.due(time.Now().Add(holdFor))
	f.lost(givenUp)
	f.takeAway(ctx, orphans)
}

// keepLast stores the changes that were not worth a write of their own.
func (f *feeder) keepLast(ctx context.Context) {
	raw := f.memory.unsaved()
	if raw == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	if err := f.in.Accept(ctx, platforms.Batch{Cursor: raw, Save: true}); err != nil {
		f.log.Warn("discord state not stored at the end; what Discord repeats is recognised", "err", err)
	}
}

const (
	// maxQueued and maxQueuedBytes bound the events that wait for the disk. Beyond them the socket is closed until half
	// of the queue is stored; Discord keeps later events, and sends them after the resume.
	maxQueued      = 4096
	maxQueuedBytes = 16 << 20
)

// item is one dispatch or HTTP request for the inbox, or several dispatches in a row that the inbox does not need.
type item struct {
	seq    int64
	scope  relay.ScopeID    // of a fetched message: REST does not name the guild
	kind   string           // kindMessage, kindInteraction, or empty
	data   []byte           // the dispatch's data
	press  *interaction     // of kindInteraction
	held   *held            // set if it came over HTTP and has no seq; nil: it came over the socket
	begun  *gateway.Session // READY: from here on the sequence counts in this session
	roster []platforms.RosterChange
	err    error // the data makes no sense
}

// idle reports whether the inbox has no interest in the item.
func (i item) idle() bool {
	return i.kind == "" && i.begun == nil && len(i.roster) == 0 && i.err == nil
}

// queue holds items between the socket or the HTTP requests, which put them in, and the feeder, which alone takes them
// out.
type queue struct {
	mu      sync.Mutex // guards the fields below
	items   []item
	bytes   int
	changed chan struct{} // closed and replaced on every change
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

// put appends an item and reports whether the queue may grow further. It never waits and never refuses.
func (q *queue) put(i item) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := len(q.items) - 1; last >= 0 && i.idle() && q.items[last].idle() {
		q.items[last].seq = i.seq
	} else {
		q.items = append(q.items, i)
		q.bytes += len(i.data)
	}
	q.changedLocked()
	return len(q.items) < maxQueued && q.bytes < maxQueuedBytes
}

// take removes up to n items from the front. The beginning of a session comes alone.
func (q *queue) take(n int) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.items))
	for k, i := range q.items[:n] {
		if i.begun != nil {
			n = max(k, 1)
			break
		}
	}
	taken := append([]item(nil), q.items[:n]...)
	clear(q.items[:n]) // so that the payloads can be freed
	q.items = q.items[n:]
	for _, i := range taken {
		q.bytes -= len(i.data)
	}
	if len(q.items) == 0 {
		q.items = nil
	}
	q.changedLocked()
	return taken
}

// changedLocked wakes everybody who waits for a change. q.mu must be held.
func (q *queue) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// look returns how many items wait, whether the queue is less than half full (relaxed), and a channel that is closed
// when either changes.
func (q *queue) look() (n int, relaxed bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.items) < maxQueued/2 && q.bytes < maxQueuedBytes/2, q.changed
}

// relax waits until the queue is half empty. It returns false when ctx ended first.
func (q *queue) relax(ctx context.Context) bool {
	for ctx.Err() == nil {
		_, relaxed, changed := q.look()
		if relaxed {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}
