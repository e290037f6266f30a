// Package ratelimit is the limiter of a bot, which everything the bot does to a chat must pass. The limiter keeps the order
// within a chat and the rates that a network takes, and lets nothing pass while the network asks for silence. It holds
// no actions: their callers wait. It does no I/O and starts no goroutine.
//
// Invariants:
//
//  1. At most one action of a chat is inside the limiter. The waiting ones enter in the order in which they came; but
//     nobody waits for an action of another instance that may not enter yet, nor for more than one part of another
//     instance's long message.
//  2. In any window of length w at most Burst + w/Every messages pass a Rate.
//  3. During a penalty nothing enters that the penalty forbids.
//  4. An action that cannot enter before its deadline is refused at once, and uses up nothing.
//  5. A chat that is idle, unpunished and fully recovered is forgotten.
//  6. What chats or instances take beyond their share leaves half of the bot's burst to others.
//  7. However many chats of one instance are punished, the chats of others stay open.
package ratelimit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Rates are the rates of one bot. The zero value only orders and obeys penalties.
type Rates struct {
	Bot  Rate // everything the bot does, in all chats together
	Chat Rate // the messages of each chat
	// Share is how much of Bot a chat may take at any time. It may take more only while half of Bot's burst is left for
	// others, so that no chat can make all others wait. The zero Rate lets every chat take everything.
	Share Rate
	// Instance, if it is not zero, replaces Share for the actions of instances: each instance has one share for all its
	// chats together.
	Instance Rate
}

// Cost says against which rates an action counts, and what a penalty for it forbids.
type Cost int

const (
	// Message is a send or an edit. It counts against the rates of its chat and of the bot. A penalty for a
	// message forbids messages and signals.
	Message Cost = iota
	// Signal is a typing, a reaction or a deletion. It counts against the rate of the bot only.
	Signal
	// Look is a look-up, which counts as a signal does. Networks count look-ups apart, so a penalty for one forbids
	// look-ups only, and other penalties do not forbid look-ups.
	Look

	costs = iota // how many costs there are
)

// sweepEvery is how often chats that need no memory are dropped.
const sweepEvery = time.Minute

// Limiter is the limiter of one bot. Its methods may be called from any goroutine.
type Limiter struct {
	// Set once, by New.
	rates Rates

	mu     sync.Mutex // guards the fields below and every chat
	chats  map[relay.ChatID]*chat
	bot    Meter
	shares map[relay.InstanceID]*Meter    // what instances took of Rates.Instance
	closed time.Time                      // end of the penalty the network laid on the whole bot
	doubts [costs]doubt                   // by cost: whether the network's refusals concern the whole bot
	guilty map[relay.InstanceID]time.Time // instances whose actions were refused, and until when that counts
	moved  chan struct{}                  // closed and replaced when closed or a doubt changed
	signs  map[sign]time.Time             // when each was given
	swept  time.Time
}

// sign is a signal worth repeating only now and then.
type sign struct {
	chat relay.ChatID
	what string
}

// chat is what the limiter remembers about one chat. Limiter.mu guards it.
type chat struct {
	holder  *waiter   // has the turn; nil: nobody
	queue   []*waiter // in the order of arrival
	rate    Meter
	share   Meter
	closed  silence       // the chat's penalties
	changed chan struct{} // closed and replaced when any of the above changed
	last    silence       // when the last action of a cost entered
	calm    [costs]bool   // when that action entered, the chat had had no other action and no penalty lately
}

// waiter is an action that waits for its chat, or that has the chat's turn.
type waiter struct {
	cost   Cost
	by     relay.InstanceID
	looks  bool // waits only until an action could enter, and does not enter
	inside bool // it has the chat's turn already, and waits for the rates only
	// due is when the action could enter, by its last computation. From that time on the actions behind it wait for it.
	due time.Time
}

// New makes an open limiter.
func New(rates Rates) *Limiter {
	return &Limiter{
		rates:  rates,
		chats:  make(map[relay.ChatID]*chat),
		bot:    Meter{Rate: rates.Bot},
		shares: make(map[relay.InstanceID]*Meter),
		guilty: make(map[relay.InstanceID]time.Time),
		moved:  make(chan struct{}),
		signs:  make(map[sign]time.Time),
	}
}

// Acquire waits for the turn of an action on the chat, for patience at most and never past ctx's deadline, and takes
// the turn. The caller calls release once the action is over; a second call does nothing. A patience of 0 or less
// takes the turn now or not at all.
//
// The error is an *relay.ActionError: not sent, worth retrying, with RetryAfter when the limiter knows when it opens.
// If the limiter opens only after the deadline, or ctx's Patience has ended, the error comes at once.
func (l *Limiter) Acquire(ctx context.Context, id relay.ChatID, cost Cost, patience time.Duration) (release func(), err error) {
	w := &waiter{cost: cost, by: platforms.Caller(ctx)}
	c, err := l.wait(ctx, id, w, patience)
	if err != nil {
		return nil, err
	}
	return func() { l.leave(c, w) }, nil
}

// WaitOpen returns nil when a message to the chat could leave now. It waits as Acquire does, with the same errors, but
// takes neither a turn nor a place in the rates.
func (l *Limiter) WaitOpen(ctx context.Context, id relay.ChatID, patience time.Duration) error {
	_, err := l.wait(ctx, id, &waiter{cost: Message, by: platforms.Caller(ctx), looks: true}, patience)
	return err
}

// Next waits until the holder of the chat's turn may act once more, for example to send the next part of a long
// message. Errors are those of Acquire. If other instances wait for the chat, they have their turns first.
func (l *Limiter) Next(ctx context.Context, id relay.ChatID, cost Cost, patience time.Duration) error {
	by := platforms.Caller(ctx)
	w := l.giveWay(id, by)
	if w == nil {
		w = &waiter{cost: cost, by: by, inside: true}
	}
	_, err := l.wait(ctx, id, w, patience)
	return err
}

// giveWay ends the holder's turn if another instance waits for it. It returns the holder, who has to queue again; nil:
// nobody waits, and the turn continues.
func (l *Limiter) giveWay(id relay.ChatID, by relay.InstanceID) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.chats[id]
	if c == nil || c.holder == nil || !slices.ContainsFunc(c.queue, func(o *waiter) bool { return o.by != by }) {
		return nil
	}
	w := c.holder
	c.holder = nil
	c.wakeLocked()
	return w
}

// leave ends w's turn, if w has it.
func (l *Limiter) leave(c *chat, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.holder == w {
		c.holder = nil
		c.wakeLocked()
	}
}

// Due reports whether the signal what, such as a typing, is due in the chat again. If so, it counts as given for the
// time every, which is at most a minute.
func (l *Limiter) Due(id relay.ChatID, what string, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.sweepLocked(now, id)
	key := sign{id, what}
	if given, ok := l.signs[key]; ok && now.Sub(given) < every {
		return false
	}
	l.signs[key] = now
	return true
}

// wait blocks until w may enter, and lets w enter, or until it is certain that w cannot enter in time. w joins the
// chat's queue, if it has not the turn already. Then wait computes again and again when w could enter: after each
// change of the chat or of the bot's state, and when the computed time has come.
func (l *Limiter) wait(ctx context.Context, id relay.ChatID, w *waiter, patience time.Duration) (*chat, error) {
	if err := ctx.Err(); err != nil {
		return nil, platforms.NotSent(0, err)
	}
	start, stop := time.Now(), platforms.Patience(ctx)
	deadline := start.Add(max(patience, 0))
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.chatLocked(id, start)
	if !w.inside {
		c.queue = append(c.queue, w)
		defer c.removeLocked(w)
	}
	for {
		now := time.Now()
		at, first := l.turnLocked(c, w, now)
		err := ctx.Err()
		switch {
		case err != nil:
		case first && !at.After(now):
			if !w.looks {
				l.takeLocked(c, w, now)
			}
			return c, nil
		case stop.Err() != nil:
			err = context.Cause(stop)
		case at.After(deadline) || !now.Before(deadline):
			err = context.DeadlineExceeded
		case at.After(now) && !w.due.After(now): // another chat used up the rate: the action behind w may now go first
			c.wakeLocked()
		}
		w.due = at
		if err != nil {
			return nil, platforms.NotSent(at.Sub(now), err)
		}
		wake := deadline
		if first {
			wake = at
		}
		changed, moved := c.changed, l.moved // read under the same lock as the state above
		l.mu.Unlock()
		select {
		case <-time.After(wake.Sub(now)):
		case <-changed:
		case <-moved:
		case <-ctx.Done():
		case <-stop.Done():
		}
		l.mu.Lock()
	}
}

// turnLocked returns when w could enter at the earliest, and whether nobody goes before w. Earlier waiters of other
// instances that may not enter yet do not count. l.mu must be held.
func (l *Limiter) turnLocked(c *chat, w *waiter, now time.Time) (at time.Time, first bool) {
	if w.inside {
		return l.opensLocked(c, w, 0, now), true
	}
	ahead, first := 0, c.holder == nil
	for _, o := range c.queue[:slices.Index(c.queue, w)] {
		if o.by != w.by && l.opensLocked(c, o, 0, now).After(now) {
			continue
		}
		first = false
		if o.cost == Message {
			ahead++
		}
	}
	return l.opensLocked(c, w, ahead, now), first
}

// opensLocked returns when w could enter, after as many other messages as ahead says: when no penalty forbids it, and
// the rates allow it. Beyond its share, w may enter while half of the bot's burst is left. l.mu must be held.
func (l *Limiter) opensLocked(c *chat, w *waiter, ahead int, now time.Time) time.Time {
	at := Later(Later(now, c.closed[w.cost]), l.botOpensLocked(w.cost))
	free := Later(l.bot.Opens(0, now), l.shareLocked(c, w.by).Opens(0, now))
	if beyond := l.bot.Opens(l.rates.Bot.Burst/2, now); beyond.Before(free) {
		free = beyond
	}
	at = Later(at, free)
	if w.cost == Message {
		at = Later(at, c.rate.Opens(ahead, now))
	}
	return at
}

// shareLocked returns the share that an instance's actions in the chat are counted against. l.mu must be held.
func (l *Limiter) shareLocked(c *chat, by relay.InstanceID) *Meter {
	if by == "" || l.rates.Instance.Every <= 0 {
		return &c.share
	}
	m := l.shares[by]
	if m == nil {
		m = &Meter{Rate: l.rates.Instance}
		l.shares[by] = m
	}
	return m
}

// takeLocked lets w enter, and charges it to the rates. An action beyond its share is not charged to the share. l.mu
// must be held.
func (l *Limiter) takeLocked(c *chat, w *waiter, now time.Time) {
	if !w.inside {
		c.holder = w
	}
	l.bot.Take(now)
	if share := l.shareLocked(c, w.by); !share.Opens(0, now).After(now) {
		share.Take(now)
	}
	if w.cost == Message {
		c.rate.Take(now)
	}
	l.enteredLocked(c, w.cost, now)
}

// sweepLocked drops state that is not needed any more, at most once in sweepEvery. It keeps the chat id. l.mu must be
// held.
func (l *Limiter) sweepLocked(now time.Time, id relay.ChatID) {
	if now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.chats, func(other relay.ChatID, c *chat) bool { return other != id && c.idleLocked(now) })
	maps.DeleteFunc(l.signs, func(_ sign, given time.Time) bool { return now.Sub(given) >= sweepEvery })
	maps.DeleteFunc(l.shares, func(_ relay.InstanceID, m *Meter) bool { return m.Recovered(now) })
	maps.DeleteFunc(l.guilty, func(_ relay.InstanceID, until time.Time) bool { return !until.After(now) })
}

// chatLocked finds or makes the memory of a chat. l.mu must be held.
func (l *Limiter) chatLocked(id relay.ChatID, now time.Time) *chat {
	l.sweepLocked(now, id)
	c := l.chats[id]
	if c == nil {
		c = &chat{rate: Meter{Rate: l.rates.Chat}, share: Meter{Rate: l.rates.Share}, changed: make(chan struct{})}
		l.chats[id] = c
	}
	return c
}

// idleLocked reports whether the chat can be forgotten without anyone noticing.
func (c *chat) idleLocked(now time.Time) bool {
	return c.holder == nil && len(c.queue) == 0 && c.rate.Recovered(now) && c.share.Recovered(now) &&
		c.closed.longAgo(now) && c.last.longAgo(now)
}

func (c *chat) removeLocked(w *waiter) {
	c.queue = slices.DeleteFunc(c.queue, func(o *waiter) bool { return o == w })
	c.wakeLocked()
}

func (c *chat) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}
