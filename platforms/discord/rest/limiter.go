package rest

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	// botRate keeps the bot below Discord's 50 requests a second, in every window.
	botRate = ratelimit.Rate{Every: 40 * time.Millisecond, Burst: 25}
	// shareRate is an instance's share of the bot's rate. Requests beyond the share wait behind those of instances
	// within theirs.
	shareRate = ratelimit.Rate{Every: 200 * time.Millisecond, Burst: 5}
)

const (
	// keptForShares is how many requests of the burst are closed to requests beyond a share; keptForOwn of these are
	// closed to all instances, so that the connector's own requests can leave whatever instances do.
	keptForShares = 20
	keptForOwn    = 16
	// maxOwnInRow is how many of the connector's own requests leave before one of a waiting instance does.
	maxOwnInRow = 8
	// leastPenalty is the penalty of a 429 that names no time.
	leastPenalty = time.Second
	// answerReserve is the time a request must have for its answer when it leaves: without an answer the
	// outcome would be unknown.
	answerReserve = time.Second
)

// limiter keeps the bot's requests to the rates Discord names in its answers, and shares them out among
// instances. A request that cannot leave before its deadline fails at once. Methods may be called from any
// goroutine.
type limiter struct {
	mu      sync.Mutex // guards the fields below
	buckets buckets
	bot     ratelimit.Meter
	closed  time.Time // end of a penalty on the bot
	banned  time.Time // end of a penalty on our address
	refused refusals
	sweptAt time.Time

	waiting  []*waiter // in the order of arrival
	alarm    *time.Timer
	accounts map[relay.InstanceID]*account
	number   uint64 // of the last request of an instance
	ownInRow int    // the connector's own requests that left before one of a waiting instance
}

func newLimiter() *limiter {
	l := &limiter{
		bot:      ratelimit.Meter{Rate: botRate},
		buckets:  buckets{routes: make(map[string]*bucket), named: make(map[string]*bucket)},
		accounts: make(map[relay.InstanceID]*account),
	}
	l.alarm = time.AfterFunc(forgetAfter, l.serve)
	return l
}

// waiter is a request that has not left yet. Within a bucket, and for the rate of the bot, the connector's own requests
// go first; then instances alternate, and the requests of each keep their order.
type waiter struct {
	route    string
	caller   relay.InstanceID // empty: the connector itself
	payer    payer
	looks    bool       // it waits until a request could leave, and does not leave itself
	deadline time.Time  // zero: none
	done     chan error // capacity 1
}

// account is how much of the bot's rate an instance has used.
type account struct {
	share ratelimit.Meter
	last  uint64 // the number of its last request
}

// opensIn returns how long a request on the route would have to wait at least.
func (l *limiter) opensIn(ctx context.Context, route string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, a := time.Now(), make(ahead)
	for _, w := range l.waiting {
		a.add(w, l.buckets.of(w.route, now), now)
	}
	return l.soonestLocked(newWaiter(ctx, route, false), a, now).Sub(now)
}

func newWaiter(ctx context.Context, route string, looks bool) *waiter {
	caller := platforms.Caller(ctx)
	w := &waiter{route: route, caller: caller, payer: payerOf(caller, route), looks: looks, done: make(chan error, 1)}
	w.deadline, _ = ctx.Deadline()
	return w
}

// wait blocks until a request on the route may leave, and counts it, unless it only looks; the caller hands
// the answer to seen. The error is an *httpcall.Fault that was never sent, with RetryAfter when known. It comes as
// soon as it is certain that the request cannot leave before ctx's deadline, or ctx's Patience has ended.
func (l *limiter) wait(ctx context.Context, route string, looks bool) error {
	late := &httpcall.Fault{What: route, Sent: httpcall.Never, Message: "not before the deadline"}
	if late.Cause = ctx.Err(); late.Cause != nil {
		return late
	}
	w, stop := newWaiter(ctx, route, looks), platforms.Patience(ctx)
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.serveLocked()
	l.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	case <-stop.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-w.done: // at the same moment: it counts as under way
		return err
	default:
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *waiter) bool { return o == w })
	late.Cause = cmp.Or(ctx.Err(), stop.Err())
	return late
}

func (l *limiter) serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serveLocked()
}

// serveLocked lets requests leave that may, refuses those that cannot leave in time, and sets the timer for the next
// one. It is called after every change. l.mu must be held.
func (l *limiter) serveLocked() {
	now := time.Now()
	l.refuseLocked(now)
	for {
		w, opens := l.nextLocked(now)
		if w == nil {
			l.alarm.Stop()
			if !opens.IsZero() {
				l.alarm.Reset(opens.Sub(now))
			}
			return
		}
		if !w.looks {
			l.takeLocked(w, now)
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(o *waiter) bool { return o == w })
		w.done <- nil
	}
}

// refuseLocked refuses waiters that cannot leave in time, or whose payer has had too many refusals. l.mu must be held.
func (l *limiter) refuseLocked(now time.Time) {
	a := make(ahead)
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		err := l.refusalLocked(w, a, now)
		if err != nil {
			w.done <- err
			return true
		}
		a.add(w, l.buckets.of(w.route, now), now)
		return false
	})
}

// refusalLocked returns why w will not leave behind the requests ahead of it; nil if it may. l.mu must be held.
func (l *limiter) refusalLocked(w *waiter, a ahead, now time.Time) error {
	no := func(until time.Time, why string, cause error) error {
		return &httpcall.Fault{What: w.route, Sent: httpcall.Never, RetryAfter: until.Sub(now), Message: why, Cause: cause}
	}
	if until, everybody := l.refused.closed(w.payer, now); everybody {
		return no(until, "Discord refused too many requests", &platforms.MutedError{Until: until})
	} else if !until.IsZero() {
		return no(until, ErrOverspent.Error(), ErrOverspent)
	}
	at := l.soonestLocked(w, a, now)
	if w.deadline.IsZero() || !at.After(now) || !at.Add(answerReserve).After(w.deadline) {
		return nil
	}
	var cause error
	if bot := l.closedLocked(w.route, now); bot.Add(answerReserve).After(w.deadline) {
		cause = &platforms.MutedError{Until: bot}
	}
	return no(at, "rate limited", cause)
}

// ahead counts, for each caller and bucket, the waiting requests that leave before a later one of that caller; the nil
// bucket stands for the rate of the bot.
type ahead map[queued]int

// queued is the key of ahead.
type queued struct {
	caller relay.InstanceID
	bucket *bucket
}

func (a ahead) add(w *waiter, b *bucket, now time.Time) {
	if w.looks {
		return
	}
	a[queued{w.caller, b}]++
	if !exempt(w.route) && !b.opens(0, now).After(now) { // a request that waits for its bucket lets others pass
		a[queued{w.caller, nil}]++
	}
}

// soonestLocked returns when w could leave at the earliest behind the requests ahead of it. l.mu must be held.
func (l *limiter) soonestLocked(w *waiter, a ahead, now time.Time) time.Time {
	b := l.buckets.of(w.route, now)
	n := a[queued{w.caller, b}]
	if w.caller != "" {
		n += a[queued{"", b}]
	}
	return ratelimit.Later(l.paceLocked(w, a[queued{w.caller, nil}], now), b.opens(n, now))
}

// nextLocked returns the request that leaves now: it finds the first one of each bucket, and then the first of these.
// If none can leave, opens is when one will; zero if none waits. l.mu must be held.
func (l *limiter) nextLocked(now time.Time) (next *waiter, opens time.Time) {
	heads := make(map[*bucket]*waiter) // for each bucket, the request that leaves first
	for _, w := range l.waiting {
		b := l.buckets.of(w.route, now)
		at := ratelimit.Later(l.paceLocked(w, 0, now), b.opens(0, now))
		switch h := heads[b]; {
		case at.After(now):
			if opens.IsZero() || at.Before(opens) {
				opens = at
			}
		case w.looks:
			return w, now
		case h == nil || before(l.rankLocked(w, false, now), l.rankLocked(h, false, now), b.served[w.caller], b.served[h.caller]):
			heads[b] = w
		}
	}
	for _, w := range l.waiting { // of two equals the one that came first leaves first
		if heads[l.buckets.of(w.route, now)] != w {
			continue
		}
		if next == nil || before(l.rankLocked(w, true, now), l.rankLocked(next, true, now), l.accountOf(w).last, l.accountOf(next).last) {
			next = w
		}
	}
	return next, opens
}

// before reports whether, of two requests, the one with rank and last leaves before the one with rank2 and last2: the
// smaller rank counts first, then the older last request of its instance.
func before(rank, rank2 int, last, last2 uint64) bool {
	return rank < rank2 || rank == rank2 && last < last2
}

// rankLocked orders requests: the least rank leaves first. shares: a request beyond its instance's share comes behind
// those within theirs. l.mu must be held.
func (l *limiter) rankLocked(w *waiter, shares bool, now time.Time) int {
	switch {
	case w.caller == "" && l.ownInRow < maxOwnInRow:
		return 0
	case w.caller == "":
		return 3
	case shares && l.accountOf(w).share.Opens(0, now).After(now):
		return 2
	}
	return 1
}

// paceLocked returns when the penalties and the rate of the bot let w leave at the earliest, after ahead other requests
// of the same caller. l.mu must be held.
func (l *limiter) paceLocked(w *waiter, ahead int, now time.Time) time.Time {
	at := l.closedLocked(w.route, now)
	if w.looks || exempt(w.route) {
		return at
	}
	// kept returns when the bot's rate has room for w and, behind it, n more requests, which are kept for others.
	kept := func(n int) time.Time { return l.bot.Opens(ahead+n, now) }
	if w.caller == "" || l.ownInRow >= maxOwnInRow {
		return ratelimit.Later(at, kept(0))
	}
	within, beyond := ratelimit.Later(kept(keptForOwn), l.accountOf(w).share.Opens(0, now)), kept(keptForShares)
	if beyond.Before(within) {
		within = beyond
	}
	return ratelimit.Later(at, within)
}

// accountOf returns the account of w's caller; a fresh one if the caller has used nothing yet.
func (l *limiter) accountOf(w *waiter) *account {
	if a := l.accounts[w.caller]; a != nil {
		return a
	}
	return &account{share: ratelimit.Meter{Rate: shareRate}}
}

// takeLocked counts one request. l.mu must be held.
func (l *limiter) takeLocked(w *waiter, now time.Time) {
	l.sweepLocked(now)
	b := l.buckets.of(w.route, now)
	b.take(now)
	counts := !exempt(w.route)
	if counts {
		l.bot.Take(now)
	}
	if w.caller == "" {
		if counts { // an exempt request uses up nothing of the bot's rate
			l.ownInRow++
		}
		if !slices.ContainsFunc(l.waiting, func(o *waiter) bool { return o.caller != "" }) {
			l.ownInRow = 0
		}
		return
	}
	l.number++
	if b.served == nil {
		b.served = make(map[relay.InstanceID]uint64)
	}
	b.served[w.caller] = l.number
	l.ownInRow = 0
	if !counts {
		return
	}
	a := l.accountOf(w)
	a.last = l.number
	if !a.share.Opens(0, now).After(now) {
		a.share.Take(now)
	}
	l.accounts[w.caller] = a
}

// seen learns from the answer to a request that wait let through. A status of 0 means that there was no answer.
func (l *limiter) seen(ctx context.Context, route string, h http.Header, status int) {
	if status == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	scope := h.Get("X-RateLimit-Scope")
	if scope != "shared" {
		l.refused.count(payerOf(platforms.Caller(ctx), route), status, now)
	}
	b := l.buckets.name(route, h.Get("X-RateLimit-Bucket"), now)
	b.usedAt = now
	limit, err := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	left, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	after, ok := httpcall.Seconds(h.Get("X-RateLimit-Reset-After"))
	switch {
	case err == nil && err2 == nil && ok:
		b.heed(max(limit, 1), left, after, now)
	case b.limit == 0:
		b.free = true
	}
	if status == http.StatusTooManyRequests {
		l.penaliseLocked(b, h, scope, now)
	}
	l.serveLocked()
}

// penaliseLocked closes the bucket, the bot or the address that a 429 names. l.mu must be held.
func (l *limiter) penaliseLocked(b *bucket, h http.Header, scope string, now time.Time) {
	until := now.Add(max(retryAfter(h), leastPenalty))
	switch {
	case isGlobal(h):
		l.closed = ratelimit.Later(l.closed, until)
	case scope == "" && h.Get("X-RateLimit-Bucket") == "": // not the API, but something in front of it
		l.banned = ratelimit.Later(l.banned, until)
	default:
		b.free, b.left, b.reset = false, 0, ratelimit.Later(b.reset, until)
	}
}

// closedLocked returns when the penalties on the bot and on its address end, if they apply to the route. l.mu must be
// held.
func (l *limiter) closedLocked(route string, now time.Time) time.Time {
	at := ratelimit.Later(now, l.banned)
	if !exempt(route) {
		at = ratelimit.Later(at, l.closed)
	}
	return at
}

// sweepLocked now and then forgets the buckets nobody uses. l.mu must be held.
func (l *limiter) sweepLocked(now time.Time) {
	if now.Sub(l.sweptAt) < forgetAfter {
		return
	}
	l.sweptAt = now
	l.buckets.sweep(now)
	maps.DeleteFunc(l.accounts, func(_ relay.InstanceID, a *account) bool { return a.share.Recovered(now) })
}

// isGlobal reports whether a 429 is about the whole bot.
func isGlobal(h http.Header) bool {
	return h.Get("X-RateLimit-Global") == "true" || h.Get("X-RateLimit-Scope") == "global"
}

// retryAfter returns how long a 429 asks us to wait; 0 if it does not say.
func retryAfter(h http.Header) time.Duration {
	d, _ := httpcall.Seconds(h.Get("Retry-After"))
	after, _ := httpcall.Seconds(h.Get("X-RateLimit-Reset-After"))
	return max(d, after)
}
