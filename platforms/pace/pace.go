// Package pace is the limiter of a bot, which everything the bot does to a chat must pass.
// It keeps the order within a chat, keeps to the rates a network is known to bear, and keeps
// silent for as long as the network asked to be left alone.
//
// It is not a queue of actions: what waits are the callers. It performs no I/O, starts no
// goroutine, and knows no network.
//
// Invariants:
//
//  1. At most one action of a chat is inside the limiter; the waiting ones enter in the order in
//     which they came, but nobody waits for another instance's that may not enter yet, nor for more
//     than one part of another instance's that has many.
//  2. In any window of length w at most Burst + w/Every messages pass a Rate.
//  3. During a penalty nothing enters that it forbids.
//  4. Who cannot enter before his deadline is told so at once, and takes nothing.
//  5. A chat that is idle, unpunished and fully recovered is forgotten.
//  6. However much goes to chats, or comes from instances, beyond their share, the rest of the bot's
//     burst is there for others.
//  7. However many chats of one instance are punished, the chats of others stay open.
package pace

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Limits are the rates of one bot. The zero value only orders and obeys penalties.
type Limits struct {
	Bot  Rate // everything the bot does, in all chats together
	Chat Rate // the messages of each chat
	// Share is what a chat may take of Bot as it likes. What it takes beyond, it takes only while
	// half of Bot's burst is left for others, so that no chat can make all others wait. The zero
	// Rate lets every chat take all there is.
	Share Rate
	// Instance, when it is not zero, takes the place of Share for what instances do: each has one share
	// for all its chats together, and having many does not help it.
	Instance Rate
}

// Kind says what an action costs, and what a penalty for it forbids.
type Kind int

const (
	// Message counts against the rates of its chat and of the bot: sends and edits. A penalty for
	// one forbids messages and signals.
	Message Kind = iota
	// Signal counts against the rate of the bot only: typing, reactions, deletions.
	Signal
	// Look is a look-up, which counts as a signal does. Networks count look-ups apart from what people
	// see, so their penalties forbid look-ups only, and those for messages do not forbid them.
	Look

	kinds = iota
)

// Forever is a patience that only the context ends.
const Forever time.Duration = math.MaxInt64

// sweepEvery is how often chats that need no memory are dropped.
const sweepEvery = time.Minute

// Limiter is the limiter of one bot. Its methods may be called from any goroutine.
type Limiter struct {
	// Set once, by New.
	limits Limits

	mu     sync.Mutex // guards the fields below and every chat
	chats  map[relay.ChatID]*chat
	bot    Meter
	shares map[relay.InstanceID]*Meter    // what instances took of Limits.Instance
	closed time.Time                      // end of the penalty the network laid on the whole bot
	doubts [kinds]doubt                   // whether it means the whole bot without saying so
	guilty map[relay.InstanceID]time.Time // whose actions were refused, and until when that counts
	moved  chan struct{}                  // closed and replaced when closed or a doubt changed
	signs  map[sign]time.Time
	swept  time.Time
}

// sign is a signal worth repeating only now and then.
type sign struct {
	chat relay.ChatID
	what string
}

// chat is what the limiter remembers about one chat. Guarded by Limiter.mu.
type chat struct {
	holder  *waiter   // who has the turn; nil: nobody
	queue   []*waiter // in the order of arrival
	rate    Meter
	share   Meter
	closed  silence       // the chat's penalties
	changed chan struct{} // closed and replaced when any of the above changed
	last    silence       // when the last action of a kind entered
	calm    [kinds]bool   // when it did, there had been no other and no penalty lately
}

type waiter struct {
	kind Kind
	by   relay.InstanceID
}

// New makes an open limiter.
func New(limits Limits) *Limiter {
	return &Limiter{
		limits: limits,
		chats:  make(map[relay.ChatID]*chat),
		bot:    Meter{Rate: limits.Bot},
		shares: make(map[relay.InstanceID]*Meter),
		guilty: make(map[relay.InstanceID]time.Time),
		moved:  make(chan struct{}),
		signs:  make(map[sign]time.Time),
	}
}

// Acquire waits for the turn of an action on the chat, at most for patience and never past
// ctx's deadline, and takes it. The caller calls release once the action is over. A patience of
// 0 or less takes the turn now or not at all.
//
// The error is an *relay.ActionError, not sent, worth retrying, with RetryAfter when the time
// the limiter opens is known. It comes at once when that time lies behind the deadline.
func (l *Limiter) Acquire(ctx context.Context, id relay.ChatID, kind Kind, patience time.Duration) (release func(), err error) {
	w := &waiter{kind, platforms.Caller(ctx)}
	c, err := l.enter(ctx, id, w, patience, true)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { l.leave(c, w) }), nil
}

// WaitOpen returns nil when a message to the chat could leave now. It waits its turn as Acquire
// does, with the same errors, and takes nothing.
func (l *Limiter) WaitOpen(ctx context.Context, id relay.ChatID, patience time.Duration) error {
	_, err := l.enter(ctx, id, &waiter{Message, platforms.Caller(ctx)}, patience, false)
	return err
}

// Next waits until the holder of the chat's turn may do one more thing of the given kind, as
// the parts of a long message are. Errors are those of Acquire. The turn stays with the holder, but
// for the turns of other instances that wait for it: theirs come first, however many parts follow.
func (l *Limiter) Next(ctx context.Context, id relay.ChatID, kind Kind, patience time.Duration) error {
	by := platforms.Caller(ctx)
	if w := l.giveWay(id, by); w != nil {
		_, err := l.enter(ctx, id, w, patience, true)
		return err
	}
	return l.wait(ctx, id, patience, func(c *chat, now time.Time) (at time.Time, ready bool) {
		return l.opensLocked(c, by, kind, 0, now), true
	}, func(c *chat, now time.Time) { l.takeLocked(c, by, kind, now) }, func(*chat) {})
}

// giveWay ends the holder's turn if another instance waits for it. It returns the holder, who has to
// queue again; nil: nobody waits, and the turn goes on.
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

// Due reports whether the signal what may be given in the chat again, and counts it as given
// until every has passed: of a row of typings one in a while does. every is at most a minute.
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

// enter queues w for the chat's turn and, when take is set, takes it.
func (l *Limiter) enter(ctx context.Context, id relay.ChatID, w *waiter, patience time.Duration, take bool) (entered *chat, err error) {
	by, kind := w.by, w.kind
	queued := false
	err = l.wait(ctx, id, patience, func(c *chat, now time.Time) (time.Time, bool) {
		if !queued {
			c.queue = append(c.queue, w)
			queued = true
		}
		ahead, first := 0, true // messages that go first; a lower bound for our own opening
		for _, o := range c.queue {
			if o == w {
				break
			}
			if o.by != by && l.opensLocked(c, o.by, o.kind, 0, now).After(now) {
				continue
			}
			first = false
			if o.kind == Message {
				ahead++
			}
		}
		return l.opensLocked(c, by, kind, ahead, now), c.holder == nil && first
	}, func(c *chat, now time.Time) {
		if take {
			l.takeLocked(c, by, kind, now)
			c.holder = w
		}
		entered = c
		c.removeLocked(w)
	}, func(c *chat) { c.removeLocked(w) })
	return entered, err
}

// wait blocks until look says ready and the opening time has come, and then calls take; or
// until that is known not to happen in time, and then calls giveUp. All three are called with
// l.mu held.
func (l *Limiter) wait(
	ctx context.Context, id relay.ChatID, patience time.Duration,
	look func(c *chat, now time.Time) (opens time.Time, ready bool),
	take func(c *chat, now time.Time), giveUp func(c *chat),
) error {
	if err := ctx.Err(); err != nil {
		return platforms.NotSent(0, err)
	}
	start := time.Now()
	deadline, limited := ctx.Deadline()
	if patience < Forever {
		if own := start.Add(max(patience, 0)); !limited || own.Before(deadline) {
			deadline, limited = own, true
		}
	}
	l.mu.Lock()
	c := l.chatLocked(id, start)
	for {
		now := time.Now()
		at, ready := look(c, now)
		if ready && !at.After(now) && ctx.Err() == nil {
			take(c, now)
			l.mu.Unlock()
			return nil
		}
		stop := ctx.Err()
		if stop == nil && limited && (at.After(deadline) || !now.Before(deadline)) {
			stop = context.DeadlineExceeded
		}
		if stop != nil {
			giveUp(c)
			l.mu.Unlock()
			return platforms.NotSent(at.Sub(now), stop)
		}
		changed, moved := c.changed, l.moved // taken under the lock that guards what was looked at
		l.mu.Unlock()

		wake := deadline
		if ready && (!limited || at.Before(wake)) {
			wake = at
		}
		var timeUp <-chan time.Time
		if ready || limited {
			timeUp = time.After(wake.Sub(now))
		}
		select {
		case <-timeUp:
		case <-changed:
		case <-moved:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
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

// opensLocked is when an action of the instance could enter after ahead messages have. l.mu must be held.
func (l *Limiter) opensLocked(c *chat, by relay.InstanceID, kind Kind, ahead int, now time.Time) time.Time {
	at := Later(Later(now, c.closed[kind]), l.botOpensLocked(kind))
	within := Later(l.bot.Opens(0, now), l.shareLocked(c, by).Opens(0, now))
	beyond := l.bot.Opens(l.limits.Bot.Burst/2, now)
	at = Later(at, earlier(within, beyond))
	if kind == Message {
		at = Later(at, c.rate.Opens(ahead, now))
	}
	return at
}

// shareLocked is the share that an instance's actions in the chat are counted against. l.mu must be held.
func (l *Limiter) shareLocked(c *chat, by relay.InstanceID) *Meter {
	if by == "" || l.limits.Instance.Every <= 0 {
		return &c.share
	}
	m := l.shares[by]
	if m == nil {
		m = &Meter{Rate: l.limits.Instance}
		l.shares[by] = m
	}
	return m
}

// takeLocked charges one action of the instance. l.mu must be held.
func (l *Limiter) takeLocked(c *chat, by relay.InstanceID, kind Kind, now time.Time) {
	l.bot.Take(now)
	if share := l.shareLocked(c, by); !share.Opens(0, now).After(now) {
		share.Take(now)
	}
	if kind == Message {
		c.rate.Take(now)
	}
	l.enteredLocked(c, kind, now)
}

// sweepLocked now and then drops what is not needed, save what is known of the chat id. l.mu must
// be held.
func (l *Limiter) sweepLocked(now time.Time, id relay.ChatID) {
	if now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	for other, c := range l.chats {
		if other != id && c.idleLocked(now) {
			delete(l.chats, other)
		}
	}
	for s, given := range l.signs {
		if now.Sub(given) >= sweepEvery {
			delete(l.signs, s)
		}
	}
	for by, m := range l.shares {
		if m.Recovered(now) {
			delete(l.shares, by)
		}
	}
	for by, until := range l.guilty {
		if !until.After(now) {
			delete(l.guilty, by)
		}
	}
}

// chatLocked finds or makes the memory of a chat. l.mu must be held.
func (l *Limiter) chatLocked(id relay.ChatID, now time.Time) *chat {
	l.sweepLocked(now, id)
	c := l.chats[id]
	if c == nil {
		c = &chat{rate: Meter{Rate: l.limits.Chat}, share: Meter{Rate: l.limits.Share}, changed: make(chan struct{})}
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
	for i, o := range c.queue {
		if o == w {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			break
		}
	}
	c.wakeLocked()
}

func (c *chat) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}
