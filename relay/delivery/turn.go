package delivery

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
)

// A gateway runs one turn of a conversation at a time. An entry that arrives during a turn interrupts it, and gateways
// of August 2026 sometimes lose a message then. A person who writes during a turn wants to interrupt it. Backlog should
// not, and a program's message should not either: such an entry waits until its conversation's turn is over. Messages
// of people there queue behind it. Other conversations are not held up. In a group a gateway may keep a session for
// each person, but we cannot tell whether it does, so all turns of a group follow one another.
//
// Waiting entries are kept by their sequences: each is looked at once, however many there are, and read again when its
// time has come. Entries that the session does not take wait in the same way. Urgent ones wait apart from the others,
// for the session may take them earlier.

const (
	// turnEnds is how long the gateway must be silent after a sign that usually ends a turn: a gateway that continues
	// types every two seconds.
	turnEnds = 3 * time.Second
	// turnSilent is how long a turn lasts without a sign of life.
	turnSilent = 45 * time.Second
	// turnMost is the longest that anything waits for a turn.
	turnMost = 10 * time.Minute

	// programEnds and programSilent take the place of turnEnds and turnSilent where a program asks. A program may ask
	// its next question right after the last answer, so programEnds only lets the gateway finish. An agent may also
	// leave a program without an answer; then the gateway stops typing, and programSilent ends the turn. Gateways of
	// June 2026 do not type, so they get turnSilent; if their turn is longer, the next entry interrupts it, and they
	// answer it at once. A turn goes on in the agent when its session ends, and when this process does.
	programEnds   = time.Second
	programSilent = 10 * time.Second
)

// limits returns how long a turn goes on after its end was heard, and how long without a sign of life. types says that
// the gateway types while it works.
func (c Conversation) limits(types bool) (ends, silent time.Duration) {
	switch program := c.Chat.Bot.IsProgram(); {
	case program && types:
		return programEnds, programSilent
	case program:
		return programEnds, turnSilent
	}
	return turnEnds, turnSilent
}

// talk is a conversation in which an entry waits, or a turn runs that others must wait for.
type talk struct {
	waiting []waiting   // oldest first
	turn    *time.Timer // fires when the turn is over; nil: no turn runs
	said    bool        // the gateway sent a message in the turn
	ends    bool        // the end of the turn was heard
	until   time.Time   // when the turn is over at the latest
}

// waiting is an entry that was looked at, and not pushed yet.
type waiting struct {
	seq     uint64
	forward bool
}

// turns holds the entries that wait for a turn, and what is known about the turns that run. The lane's lock guards it.
type turns struct {
	// Set once, by NewPump.
	mu    sync.Locker // the lane's
	wake  func()      // something may be pushed now; called with mu held
	types func() bool // the gateway types while a turn goes on

	talks map[Conversation]*talk
	ready []Conversation // conversations whose oldest waiting entry may be pushed
	since time.Time      // entries accepted before are backlog
}

// heard notes a sign of the gateway's in the conversation.
func (u *turns) heard(c Conversation, sign Sign) {
	if t := u.talks[c]; t != nil && t.turn != nil {
		t.said = t.said || sign == Said
		t.ends = t.ends || sign == Final || sign == Closed && t.said
		u.startTimer(c, t)
	}
}

// begin notes that a turn of the conversation begins.
func (u *turns) begin(c Conversation) {
	t := u.talk(c)
	u.unready(c)
	t.said, t.ends, t.until = false, false, time.Now().Add(turnMost)
	u.startTimer(c, t)
}

// startTimer starts anew the timer that ends the conversation's turn.
func (u *turns) startTimer(c Conversation, t *talk) {
	ends, wait := c.limits(u.types())
	if t.ends {
		wait = ends
	}
	t.stopTimer()
	var turn *time.Timer
	turn = time.AfterFunc(min(wait, time.Until(t.until)), func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if t.turn == turn { // else the timer was started anew meanwhile
			u.end(c)
		}
	})
	t.turn = turn
}

// end ends the conversation's turn: entries that wait there may be pushed.
func (u *turns) end(c Conversation) {
	if t := u.talks[c]; t != nil {
		t.stopTimer()
		u.tidy(c, t)
		u.wake()
	}
}

// stopTimer stops the timer, if there is one: the turn is over.
func (t *talk) stopTimer() {
	if t.turn != nil {
		t.turn.Stop()
		t.turn = nil
	}
}

// talk returns the conversation's talk, and makes it if there is none.
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

// tidy does nothing while the conversation's turn runs. Otherwise it makes the conversation ready if something waits
// there, and forgets it if not.
func (u *turns) tidy(c Conversation, t *talk) {
	switch {
	case t.turn != nil:
	case len(t.waiting) == 0:
		delete(u.talks, c)
	case !slices.Contains(u.ready, c):
		u.ready = append(u.ready, c)
	}
}

// unready notes that nothing that waits in the conversation may be pushed.
func (u *turns) unready(c Conversation) {
	u.ready = slices.DeleteFunc(u.ready, func(o Conversation) bool { return o == c })
}

// place notes in e its conversation, and whether it begins a turn there that others must wait for. It reports whether e
// itself must wait, behind a turn or behind other entries.
func (u *turns) place(e *load, c Conversation, how Manner, as form) (behind bool) {
	e.where = c
	event := as == asEvent && how != Urgent && c.Chat.ID != ""
	patient := event && (how == Patient || how == Following || u.backlog(e.Entry))
	e.turn = patient || event && how == Interrupting
	if event && how == Following && u.talks[c] == nil {
		u.begin(c)
	}
	t := u.talks[c]
	return t != nil && (patient || event && how == Live && len(t.waiting) > 0)
}

// wait adds w to the waiting entries, unless it is among them: an entry may be looked at twice.
func (t *talk) wait(w waiting) {
	if i, there := t.find(w.seq); !there {
		t.waiting = slices.Insert(t.waiting, i, w)
	}
}

// find returns the index in t.waiting at which the entry of that sequence is, or would be.
func (t *talk) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(t.waiting, seq, func(w waiting, seq uint64) int { return cmp.Compare(w.seq, seq) })
}

// taken removes entries of the conversation from those that wait.
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

// backlog reports whether e was accepted before the session began, or before its gateway woke. An entry that was
// offered to the lane has no time yet: it has just been accepted.
func (u *turns) backlog(e store.Entry) bool { return !e.At.IsZero() && e.At.Before(u.since) }

// next returns the ready conversation with the oldest waiting entry. open: the window has room; without room, only a
// forward can be next.
func (u *turns) next(open bool) (due Conversation, ok bool) {
	var oldest uint64
	for _, c := range u.ready {
		if w := u.talks[c].waiting[0]; (open || w.forward) && (!ok || w.seq < oldest) {
			due, oldest, ok = c, w.seq, true
		}
	}
	return due, ok
}
