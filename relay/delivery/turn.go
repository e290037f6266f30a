package delivery

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// A gateway runs one turn of a conversation at a time. What comes in between interrupts that turn, and gateways of August
// 2026 lose one message or the other over it. A person who writes into a turn means to. What had gathered before the
// session began does not: of that, a conversation's next entry waits until the turn before is over. What is said
// meanwhile in that conversation comes behind what waits; nobody else waits for either. In a group gateways may keep a
// session for each person; nothing tells us whether they do, so turns of a group follow one another too.
//
// Entries that wait are known by their sequences, so that however many there are, each is looked at once, and read again
// when its time has come. Those that the session does not take wait in the same way; what is urgent waits by itself, for
// it may be taken before the others.

const (
	// turnEnds is how long nothing must have been heard when something was that usually ends a turn: while a turn goes on,
	// gateways type every two seconds.
	turnEnds = 3 * time.Second
	// turnSilent is how long a turn goes on without a sign of life.
	turnSilent = 45 * time.Second
	// turnMost is how long a turn is waited for.
	turnMost = 10 * time.Minute
)

// Conversation is where turns follow one another. The zero value is none: there nothing waits.
type Conversation struct {
	Chat   relay.Chat
	Thread relay.ThreadID // of a network whose threads are no chats
	urgent bool           // only what is urgent there
}

// In is the conversation of a chat and a thread in it. Some networks name a thread that is a chat.
func In(c relay.Chat, thread relay.ThreadID) Conversation {
	if string(thread) == string(c.ID) {
		thread = ""
	}
	return Conversation{Chat: c, Thread: thread}
}

// Sign is what a gateway does in a conversation while a turn runs there.
type Sign int

const (
	Alive  Sign = iota // it gives a sign of life
	Said               // it has said something
	Closed             // it has closed the turn, if it said something: gateways of August 2026 close also what they put off
	Final              // it has said the last thing, as it seems
)

// talk is a conversation in which something waits, or whose turn is waited for.
type talk struct {
	waiting []waiting   // oldest first
	turn    *time.Timer // fires when the turn is over; nil: none is waited for
	said    bool        // something was said in the turn
	ends    bool        // the end of the turn was heard
	until   time.Time   // then it is over at the latest
}

// waiting is an entry that was passed over.
type waiting struct {
	seq     uint64
	forward bool
}

// Heard says what the gateway did in the conversation. It never blocks.
func (p *Pump) Heard(c Conversation, sign Sign) {
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	if t := p.talks[c]; t != nil && t.turn != nil {
		t.said = t.said || sign == Said
		t.ends = t.ends || sign == Final || sign == Closed && t.said
		p.listenLocked(c, t)
	}
}

// beginTurnLocked notes that a turn of the conversation begins. lane.mu must be held.
func (p *Pump) beginTurnLocked(c Conversation) {
	t := p.talkLocked(c)
	p.ready = slices.DeleteFunc(p.ready, func(o Conversation) bool { return o == c })
	t.said, t.ends, t.until = false, false, time.Now().Add(turnMost)
	p.listenLocked(c, t)
}

// listenLocked waits for the end of the conversation's turn. lane.mu must be held.
func (p *Pump) listenLocked(c Conversation, t *talk) {
	wait := turnSilent
	if t.ends {
		wait = turnEnds
	}
	t.stop()
	var turn *time.Timer
	turn = time.AfterFunc(min(wait, time.Until(t.until)), func() {
		p.lane.mu.Lock()
		defer p.lane.mu.Unlock()
		if t.turn == turn { // else something was heard meanwhile
			p.endTurnLocked(c)
		}
	})
	t.turn = turn
}

// endTurnLocked has what waits in the conversation go on. lane.mu must be held.
func (p *Pump) endTurnLocked(c Conversation) {
	if t := p.talks[c]; t != nil {
		t.stop()
		p.tidyLocked(c, t)
		p.wakeLocked()
	}
}

// stop ends the wait for the end of a turn.
func (t *talk) stop() {
	if t.turn != nil {
		t.turn.Stop()
		t.turn = nil
	}
}

// talkLocked is what is known of the conversation. lane.mu must be held.
func (p *Pump) talkLocked(c Conversation) *talk {
	t := p.talks[c]
	if t == nil {
		if p.talks == nil {
			p.talks = make(map[Conversation]*talk)
		}
		t = new(talk)
		p.talks[c] = t
	}
	return t
}

// tidyLocked forgets a conversation in which nothing waits, and notes that what waits in another may be pushed, unless
// its turn runs. lane.mu must be held.
func (p *Pump) tidyLocked(c Conversation, t *talk) {
	switch {
	case t.turn != nil:
	case len(t.waiting) == 0:
		delete(p.talks, c)
	case !slices.Contains(p.ready, c):
		p.ready = append(p.ready, c)
	}
}

// placeLocked notes where e is said, and whether it begins a turn there that is waited for. lane.mu must be held.
func (p *Pump) placeLocked(e *load, c Conversation, urgent bool) (behind bool) {
	e.where = c
	said := p.lane.formLocked(e.Entry) == asEvent && !urgent && c.Chat.ID != ""
	e.turn = said && p.backlogLocked(e.Entry)
	t := p.talks[c]
	return t != nil && (e.turn || said && len(t.waiting) > 0)
}

// waits has e wait if it cannot be pushed yet, and reports whether it does.
func (p *Pump) waits(ctx context.Context, e *load) bool {
	l, taken := p.lane, p.takes(ctx, e.Entry)
	l.mu.Lock()
	live := taken && len(p.talks) == 0 && !p.backlogLocked(e.Entry)
	l.mu.Unlock()
	if live {
		return false
	}
	c, urgent := p.where(e.Entry)
	l.mu.Lock()
	defer l.mu.Unlock()
	if behind := p.placeLocked(e, c, urgent); taken && !behind || p.knownLocked(e.Buffer) {
		return false
	}
	if p.said == p.knew { // else it is looked at anew
		p.last = e.Buffer.Seq
		p.talkLocked(c).wait(waiting{e.Buffer.Seq, l.formLocked(e.Entry) == asForward})
	}
	return true
}

// findWaiting is the entry that waited longest of those that need not wait any more.
func (p *Pump) findWaiting(ctx context.Context) (e load, ok bool, err error) {
	l := p.lane
	l.mu.Lock()
	c, ok := p.dueLocked(p.ordinaryLocked() < l.window)
	if !ok { // its turn began meanwhile
		l.mu.Unlock()
		return e, false, nil
	}
	seq := p.talks[c].waiting[0].seq
	l.mu.Unlock()
	found, ok, err := l.buf.Next(ctx, l.inst, seq-1)
	if err != nil {
		return e, false, err
	}
	e = newLoad(found)
	there := ok && found.Buffer.Seq == seq
	taken := there && p.takes(ctx, found)
	urgent := false
	if there {
		_, urgent = p.where(found)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !there: // it was buried meanwhile
		p.takeWaitingLocked(c, []part{{id: relay.BufferID{Seq: seq}}})
	case !taken && p.said == p.knew:
		p.ready = slices.DeleteFunc(p.ready, func(o Conversation) bool { return o == c })
	}
	e.waited = true
	p.placeLocked(&e, c, urgent)
	if taken { // it may have become an event meanwhile, which waits for the window
		p.talks[c].waiting[0].forward = l.formLocked(found) == asForward
	}
	return e, taken, nil
}

// where is Outlet.Where's, guarded: what cannot be read waits for nobody.
func (p *Pump) where(e store.Entry) (c Conversation, urgent bool) {
	_ = p.guarded(e, func() error {
		c, urgent = p.out.Where(e)
		return nil
	})
	c.urgent = urgent
	return c, urgent
}

// takes is Outlet.Takes's, guarded: what cannot be read is pushed, and buried then.
func (p *Pump) takes(ctx context.Context, e store.Entry) bool {
	taken := true
	_ = p.guarded(e, func() error {
		taken = p.out.Takes(ctx, e)
		return nil
	})
	return taken
}

// asideLocked has what was joined wait once more, each by itself. lane.mu must be held.
func (p *Pump) asideLocked(e load) {
	p.removeLocked(e.Buffer)
	if len(e.parts) == 1 {
		return
	}
	t := p.talkLocked(e.where)
	for _, x := range e.parts {
		t.wait(waiting{seq: x.id.Seq})
	}
	p.last = max(p.last, e.Buffer.Seq)
	p.tidyLocked(e.where, t)
}

// wait puts w among what waits, if it is not there. It may be looked at for the second time.
func (t *talk) wait(w waiting) {
	if i, there := t.find(w.seq); !there {
		t.waiting = slices.Insert(t.waiting, i, w)
	}
}

// find is where the entry of that sequence waits, or would.
func (t *talk) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(t.waiting, seq, func(w waiting, seq uint64) int { return cmp.Compare(w.seq, seq) })
}

// takeWaitingLocked notes that entries of the conversation wait no more. lane.mu must be held.
func (p *Pump) takeWaitingLocked(c Conversation, parts []part) {
	t := p.talks[c]
	if t == nil {
		return
	}
	for _, x := range parts {
		if i, there := t.find(x.id.Seq); there {
			t.waiting = slices.Delete(t.waiting, i, i+1)
		}
	}
	p.ready = slices.DeleteFunc(p.ready, func(o Conversation) bool { return o == c })
	p.tidyLocked(c, t)
}

// backlogLocked reports whether e had been accepted before the session began, or its gateway woke. What was offered bears
// no time: it has just been accepted. lane.mu must be held.
func (p *Pump) backlogLocked(e store.Entry) bool { return !e.At.IsZero() && e.At.Before(p.since) }

// dueLocked is the conversation whose turn it is: of those with something to push, the one where that is oldest. open:
// the window has room. lane.mu must be held.
func (p *Pump) dueLocked(open bool) (due Conversation, ok bool) {
	var oldest uint64
	for _, c := range p.ready {
		if w := p.talks[c].waiting[0]; (open || w.forward) && (!ok || w.seq < oldest) {
			due, oldest, ok = c, w.seq, true
		}
	}
	return due, ok
}
