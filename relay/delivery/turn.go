package delivery

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
)

// A gateway runs one turn of a conversation at a time. What comes in between interrupts that turn, and gateways of August
// 2026 lose one message or the other over it. A person who writes into a turn means to. What had gathered before the
// session began does not, nor does what a program hands over: of that, a conversation's next entry waits until the turn
// before is over. What is said meanwhile in that conversation comes behind what waits; nobody else waits for either. In a
// group gateways may keep a session for each person; nothing tells us whether they do, so turns of a group follow one
// another too.
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

	// programEnds and programSilent are the same for what programs hand over. For a program the last answer is the end, and
	// it may ask the next question at once; so it is waited only until the gateway is done with the turn. An agent need
	// not answer a program at all: gateways that type fall silent then. Those of June 2026 do not type, and answer at once
	// what comes into a turn: they are given turnSilent, and into a longer turn the next entry comes all the same. A turn
	// outlives its session, and this process.
	programEnds   = time.Second
	programSilent = 10 * time.Second
)

// lasts is how long a turn goes on after its end was heard, and without a sign of life, of a gateway that types or does not.
func (c Conversation) lasts(types bool) (ends, silent time.Duration) {
	switch program := c.Chat.Bot.IsProgram(); {
	case program && types:
		return programEnds, programSilent
	case program:
		return programEnds, turnSilent
	}
	return turnEnds, turnSilent
}

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

// turns are what waits for its turn, and what is known of the turns that run. Its lane's lock guards it.
type turns struct {
	// Set once, by NewPump.
	mu    sync.Locker // the lane's
	wake  func()      // something may be pushed now; called with mu held
	types func() bool // the gateway types while a turn goes on

	talks map[Conversation]*talk
	ready []Conversation // those of talks in which something waits that may be pushed
	since time.Time      // what was accepted before is backlog
}

// heard notes what the gateway did in the conversation.
func (u *turns) heard(c Conversation, sign Sign) {
	if t := u.talks[c]; t != nil && t.turn != nil {
		t.said = t.said || sign == Said
		t.ends = t.ends || sign == Final || sign == Closed && t.said
		u.listen(c, t)
	}
}

// begin notes that a turn of the conversation begins.
func (u *turns) begin(c Conversation) {
	t := u.talk(c)
	u.unready(c)
	t.said, t.ends, t.until = false, false, time.Now().Add(turnMost)
	u.listen(c, t)
}

// listen waits for the end of the conversation's turn.
func (u *turns) listen(c Conversation, t *talk) {
	ends, wait := c.lasts(u.types())
	if t.ends {
		wait = ends
	}
	t.stop()
	var turn *time.Timer
	turn = time.AfterFunc(min(wait, time.Until(t.until)), func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if t.turn == turn { // else something was heard meanwhile
			u.end(c)
		}
	})
	t.turn = turn
}

// end has what waits in the conversation go on.
func (u *turns) end(c Conversation) {
	if t := u.talks[c]; t != nil {
		t.stop()
		u.tidy(c, t)
		u.wake()
	}
}

// stop ends the wait for the end of a turn.
func (t *talk) stop() {
	if t.turn != nil {
		t.turn.Stop()
		t.turn = nil
	}
}

// talk is what is known of the conversation.
func (u *turns) talk(c Conversation) *talk {
	t := u.talks[c]
	if t == nil {
		if u.talks == nil {
			u.talks = make(map[Conversation]*talk)
		}
		t = new(talk)
		u.talks[c] = t
	}
	return t
}

// tidy forgets a conversation in which nothing waits, and notes that what waits in another may be pushed, unless
// its turn runs.
func (u *turns) tidy(c Conversation, t *talk) {
	switch {
	case t.turn != nil:
	case len(t.waiting) == 0:
		delete(u.talks, c)
	case !slices.Contains(u.ready, c):
		u.ready = append(u.ready, c)
	}
}

// unready notes that nothing may be pushed in the conversation.
func (u *turns) unready(c Conversation) {
	u.ready = slices.DeleteFunc(u.ready, func(o Conversation) bool { return o == c })
}

// place notes where e is said, and whether it begins a turn there that is waited for. behind: it waits.
func (u *turns) place(e *load, c Conversation, how Manner, as form) (behind bool) {
	e.where = c
	said := as == asEvent && how != Urgent && c.Chat.ID != ""
	waits := said && (how == Patient || how == Following || u.backlog(e.Entry))
	e.turn = waits || said && how == Interrupting
	if said && how == Following && u.talks[c] == nil {
		u.begin(c)
	}
	t := u.talks[c]
	return t != nil && (waits || said && how == Live && len(t.waiting) > 0)
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

// taken notes that entries of the conversation wait no more.
func (u *turns) taken(c Conversation, parts []part) {
	t := u.talks[c]
	if t == nil {
		return
	}
	for _, x := range parts {
		if i, there := t.find(x.id.Seq); there {
			t.waiting = slices.Delete(t.waiting, i, i+1)
		}
	}
	u.unready(c)
	u.tidy(c, t)
}

// backlog reports whether e had been accepted before the session began, or its gateway woke. What was offered bears
// no time: it has just been accepted.
func (u *turns) backlog(e store.Entry) bool { return !e.At.IsZero() && e.At.Before(u.since) }

// next is the conversation whose turn it is: of those with something to push, the one where that is oldest. open:
// the window has room.
func (u *turns) next(open bool) (due Conversation, ok bool) {
	var oldest uint64
	for _, c := range u.ready {
		if w := u.talks[c].waiting[0]; (open || w.forward) && (!ok || w.seq < oldest) {
			due, oldest, ok = c, w.seq, true
		}
	}
	return due, ok
}
