package outbound

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// Run sends the answers that wait, until ctx ends. Those that are being sent at that moment have a few seconds more.
func (q *Queue) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		q.prune(ctx)
		at := q.begin(time.Now(), func(j job) { wg.Go(func() { q.finish(j, q.attempt(ctx, j)) }) })
		var look <-chan time.Time
		if !at.IsZero() {
			look = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
		case <-q.poke:
		case <-look:
		}
	}
}

// prune forgets the answers that are no longer on disk. It reads the disk only if q.stale says that there may be some.
func (q *Queue) prune(ctx context.Context) {
	q.mu.Lock()
	stale, gone := q.stale, make(map[uint64]bool) // gone: the answers in memory; those on disk are taken out below
	q.stale = false
	for _, l := range q.lines {
		for _, w := range l.waiting {
			gone[w.number] = true
		}
	}
	q.mu.Unlock()
	if !stale {
		return
	}
	there, err := q.out.db.Outbox.List(ctx, outbox.Filter{})
	if err != nil {
		return // each answer is looked up when its turn comes
	}
	for _, r := range there {
		delete(gone, r.Number)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for c, l := range q.lines {
		if l.going { // its first answer is being sent: prune this line later
			q.stale = true
			continue
		}
		before := len(l.waiting)
		q.forgetLocked(c, func(w waiter) bool { return gone[w.number] })
		q.out.counters.Add(count.OutboxRemoved, uint64(before-len(l.waiting)))
	}
}

// begin calls start for every answer that may be sent now. again is when to call begin next; zero: not before q.poke is
// signalled.
func (q *Queue) begin(now time.Time, start func(job)) (again time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lookLocked(now)
	for {
		var next job
		found := false
		again = time.Time{}
		for c, l := range q.lines {
			j, at, ok := q.dueLocked(c, l, now)
			switch {
			case !ok:
			case at.After(now):
				if again.IsZero() || at.Before(again) {
					again = at
				}
			case !found || q.beforeLocked(j.waiter, next.waiter):
				next, found = j, true
			}
		}
		if !found {
			break
		}
		q.lines[next.chat].going = true
		q.going.Add(1, next.of)
		if a := q.away[next.chat.Bot]; a != nil && !next.ends {
			a.trying = true
		}
		start(next)
	}
	if soon := now.Add(lookEvery); len(q.away) > 0 && len(q.lines) > 0 && (again.IsZero() || soon.Before(again)) {
		again = soon
	}
	return again
}

// beforeLocked reports whether a is sent before b: first the tenant with the fewest answers being sent, then the oldest
// answer. q.mu must be held.
func (q *Queue) beforeLocked(a, b waiter) bool {
	if n := q.going.Compare(a.of, b.of); n != 0 {
		return n < 0
	}
	return a.number < b.number
}

// job is one answer that Run has taken up.
type job struct {
	chat relay.Chat
	waiter
	ends bool // its time is over: it is only marked as late
}

// dueLocked returns the next job of a line and when to begin it. ok is false if something that runs must end first.
// When an answer's time is over, its job is due even if the bot is away. q.mu must be held.
func (q *Queue) dueLocked(c relay.Chat, l *line, now time.Time) (j job, at time.Time, ok bool) {
	if l.going || len(l.waiting) == 0 {
		return j, at, false
	}
	var end time.Time
	if n := slices.IndexFunc(l.waiting, func(w waiter) bool { return !w.late }); n >= 0 {
		if end = l.waiting[n].at.Add(q.keep); !now.Before(end) {
			return job{c, l.waiting[n], true}, now, true
		}
	}
	w, a := l.waiting[0], q.away[c.Bot]
	if tenant, _ := q.going.Of(w.of); q.going.Total() >= atOnce || tenant >= ofOne || a != nil && a.trying {
		return j, at, false
	}
	at = l.next
	if a != nil && a.next.After(at) {
		at = a.next
	}
	if !end.IsZero() && end.Before(at) {
		at = end
	}
	return job{chat: c, waiter: w}, at, true
}

// lookLocked makes a bot due at once whose connection has come back, with the lines that waited for that. q.mu must be
// held.
func (q *Queue) lookLocked(now time.Time) {
	for id, a := range q.away {
		p := q.out.bots.Bot(id)
		up := p != nil && p.Status().State == platforms.Connected
		if up && a.down {
			a.next, a.pause = now, 0
			for c, l := range q.lines {
				if c.Bot == id && l.away {
					l.next = now
				}
			}
		}
		a.down = !up
	}
}

// outcome is the outcome of a job.
type outcome struct {
	done    []uint64      // the answers that need no further job
	away    bool          // the bot could not be reached
	yields  bool          // the bot's other chats come before this one; the next to be tried shows whether the bot is back
	reached bool          // the network answered
	after   time.Duration // the pause before the next try
	why     string
}

// finish records the outcome of a job.
func (q *Queue) finish(j job, o outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, l := time.Now(), q.lines[j.chat]
	l.going = false
	q.going.Add(-1, j.of)
	if j.ends {
		for n := range l.waiting {
			l.waiting[n].late = l.waiting[n].late || l.waiting[n].number == j.number
		}
	} else {
		l.next, l.why, l.away = now.Add(o.after), o.why, o.away && o.yields
		if l.away && q.aloneLocked(j.chat) {
			l.next = now // the pause of its bot says when to try again
		}
		q.reachedLocked(j.chat.Bot, o, now)
	}
	q.forgetLocked(j.chat, func(w waiter) bool { return slices.Contains(o.done, w.number) })
}

// aloneLocked reports whether all waiting answers of the bot wait in this chat. q.mu must be held.
func (q *Queue) aloneLocked(in relay.Chat) bool {
	for c := range q.lines {
		if c.Bot == in.Bot && c != in {
			return false
		}
	}
	return true
}

// reachedLocked records whether a bot could be reached. q.mu must be held.
func (q *Queue) reachedLocked(b relay.Bot, o outcome, now time.Time) {
	a := q.away[b]
	switch {
	case o.reached:
		delete(q.away, b)
	case o.away && a == nil:
		q.away[b] = &absence{pause: shortest, next: now.Add(shortest)}
	case a != nil && a.trying: // a job that began before the bot was away tells nothing new
		a.trying = false
		if o.away {
			a.pause = min(max(2*a.pause, shortest), longest)
		}
		a.next = now.Add(a.pause)
	}
}
