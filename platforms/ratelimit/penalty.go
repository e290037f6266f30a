package ratelimit

import (
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Telegram counts per chat and per bot, and its 429 does not say which of the two it means. The limiter takes a penalty
// for the chat's, however many chats are punished. It takes penalties for the bot's only when two chats are punished
// and, before any action has passed, an innocent chat is refused too: a chat that was silent and unpunished, and whose
// instance had no punished chat lately. So nobody can cause refusals for others by doing too much in their own chats.
//
// Even then the bot is closed for a few seconds at a time only. After them one action enters, and the bot is closed
// until that action is answered. If the action passes, the bot is not meant, or no longer.
const (
	// lately is how long an action or the end of a penalty counts against innocence.
	lately = time.Minute
	// shutFor is the longest time for which the bot is closed at once.
	shutFor = 5 * time.Second
	// probeFor is how long the bot is closed behind an action that gets no answer.
	probeFor = 2 * time.Second
)

// silence has one time for each cost: for chat.closed the end of a penalty, for chat.last the entry of the last action.
type silence [costs]time.Time

// extend closes, until then, everything that a penalty for cost forbids.
func (s *silence) extend(cost Cost, until time.Time) {
	s[cost] = Later(s[cost], until)
	if cost == Message {
		s[Signal] = Later(s[Signal], until)
	}
}

// longAgo reports whether every time is at least lately ago, so that none counts against innocence.
func (s *silence) longAgo(now time.Time) bool {
	return !slices.ContainsFunc(s[:], func(at time.Time) bool { return now.Sub(at) < lately })
}

// doubt is what the limiter knows about the question whether the network's refusals at a cost concern the whole bot.
type doubt struct {
	punished map[relay.ChatID]time.Time // the chats punished since an action last passed, and until when; nil: none
	shut     time.Time                  // the bot is closed until then
	probing  time.Time                  // until then one action at a time enters
	probe    *chat                      // the chat whose action entered last while probing
}

// Closed reports whether a penalty forbids signals in the chat.
func (l *Limiter) Closed(id relay.ChatID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.chats[id]
	return l.botOpensLocked(Signal).After(now) || c != nil && c.closed[Signal].After(now)
}

// Ask lets a look-up enter that waits neither for the chat's turn nor for a rate, unless a penalty forbids it. In that
// case until is the penalty's end, and bot says whether the penalty is on the whole bot.
func (l *Limiter) Ask(id relay.ChatID) (until time.Time, bot bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.chatLocked(id, now)
	if at := l.botOpensLocked(Look); at.After(now) {
		return at, true
	}
	if at := c.closed[Look]; at.After(now) {
		return at, false
	}
	l.enteredLocked(c, Look, now)
	return time.Time{}, false
}

// Penalise closes the chat for d, as the network demanded of the chat.
func (l *Limiter) Penalise(id relay.ChatID, d time.Duration) {
	if d <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.chatLocked(id, now)
	c.closed.extend(Message, now.Add(d))
	c.closed.extend(Look, now.Add(d))
	c.wakeLocked()
}

// PenaliseBot closes all chats for d, as the network demanded of the bot.
func (l *Limiter) PenaliseBot(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.closed) {
		l.closed = until
		l.movedLocked()
	}
}

// Refused closes the chat for d: the network refused an action that had entered, requested by an instance (empty: by
// the connector), and demanded silence for d without saying whose.
func (l *Limiter) Refused(id relay.ChatID, cost Cost, by relay.InstanceID, d time.Duration) {
	if d <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	until := now.Add(d)
	c := l.chatLocked(id, now)
	own := by == "" && cost == Look // the connector's own look-ups are so rare that a refusal says nothing against the chat
	innocent := c.calm[cost] && (own || !l.guilty[by].After(now))
	c.closed.extend(cost, until)
	c.wakeLocked()
	if !own {
		l.guilty[by] = Later(l.guilty[by], until.Add(lately))
	}
	t := &l.doubts[cost]
	if t.probe == c { // a refusal of the probing chat does not show whether other chats' actions pass
		t.shut, t.probe = now, nil
	}
	last := until // the latest end of all penalties
	for other, end := range t.punished {
		if other == id || !end.After(now) {
			delete(t.punished, other)
		}
		last = Later(last, end)
	}
	if innocent && len(t.punished) >= 2 {
		t.shut, t.probing = now.Add(min(d, shutFor)), last
	}
	if t.punished == nil {
		t.punished = make(map[relay.ChatID]time.Time)
	}
	t.punished[id] = until
	l.movedLocked()
}

// Passed says that the network carried out an action of that cost, so the network does not refuse the whole bot.
func (l *Limiter) Passed(cost Cost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.doubts[cost]
	if t.punished == nil {
		return
	}
	*t = doubt{}
	l.movedLocked()
}

// botOpensLocked returns when the whole bot is open for a cost. l.mu must be held.
func (l *Limiter) botOpensLocked(cost Cost) time.Time {
	at := Later(l.closed, l.doubts[cost].shut)
	if cost == Signal {
		at = Later(at, l.doubts[Message].shut)
	}
	return at
}

// enteredLocked remembers an action that enters. l.mu must be held.
func (l *Limiter) enteredLocked(c *chat, cost Cost, now time.Time) {
	c.calm[cost] = now.Sub(c.last[cost]) >= lately && now.Sub(c.closed[cost]) >= lately
	c.last[cost] = now
	if t := &l.doubts[cost]; t.probing.After(now) {
		t.shut, t.probe = now.Add(probeFor), c
		l.movedLocked()
	}
}

// movedLocked wakes everybody who waits for the whole bot. l.mu must be held.
func (l *Limiter) movedLocked() {
	close(l.moved)
	l.moved = make(chan struct{})
}
