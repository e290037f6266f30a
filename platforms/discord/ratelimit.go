package discord

import (
	"context"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// botEvery and botBurst keep the bot below Discord's 50 requests a second, in every window.
	botEvery = 40 * time.Millisecond
	botBurst = 25
	// unknownWindow is how long one request of a route may be under way before the next one goes
	// without knowing the route's limit.
	unknownWindow = time.Second
	// answerReserve of an action's time is left to a request that had to wait: one that leaves with
	// no time for its answer makes an outcome unknown that need not be.
	answerReserve = time.Second
	// leastPenalty is how long a 429 that names no time counts.
	leastPenalty = time.Second
	// maxRefused is how many requests Discord may refuse in ten minutes before we refuse them
	// ourselves. At 10,000 it bans the address, on which other programs may run.
	maxRefused = 5000
	// refusedMinutes is how many minutes are counted together: ten, and the one that has begun.
	refusedMinutes = 11
	// forgetAfter is how long a bucket nobody uses is remembered.
	forgetAfter = 10 * time.Minute
)

// limits keeps the bot's requests to the rates Discord names in its answers. A route is a method
// and a path in which all ids but the top-level one (channel, guild, webhook) are replaced; routes
// that Discord counts together share a bucket. Nobody sleeps past his deadline: who cannot go in
// time is told so at once.
//
// Methods may be called from any goroutine.
type limits struct {
	mu      sync.Mutex // guards the fields below
	routes  map[string]*bucket
	buckets map[string]*bucket   // by Discord's name and the top-level id
	full    time.Time            // when the whole burst of the bot is there again
	closed  time.Time            // end of a penalty on the bot
	banned  time.Time            // end of a penalty on our address
	changed chan struct{}        // closed and replaced when an answer came
	dead    map[string]time.Time // web hooks whose token Discord refused, and until when we remember
	refused [refusedMinutes]tally
	sweptAt time.Time
}

// tally is how many requests were refused in one minute.
type tally struct {
	minute int64 // since 1970
	count  int
}

// bucket is what is known about one of Discord's rate limits.
type bucket struct {
	free   bool // Discord names no limit
	limit  int  // requests per window; 0 until known
	left   int
	window time.Duration // the longest Discord ever said
	reset  time.Time     // when the window ends
	usedAt time.Time
}

func newLimits() *limits {
	return &limits{
		routes:  make(map[string]*bucket),
		buckets: make(map[string]*bucket),
		changed: make(chan struct{}),
		dead:    make(map[string]time.Time),
	}
}

// wait blocks until a request on the route may leave, and counts it as under way. The caller hands
// the answer to seen. The error is an *apiError, never sent, with RetryAfter when known; it comes at
// once when the time lies behind ctx's deadline.
func (l *limits) wait(ctx context.Context, route string) error {
	return l.enter(ctx, route, true)
}

// waitOpen is wait for somebody who only wants to know.
func (l *limits) waitOpen(ctx context.Context, route string) error {
	return l.enter(ctx, route, false)
}

// opensIn is how long a request on the route would have to wait now.
func (l *limits) opensIn(route string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return max(l.opensLocked(route, now).Sub(now), 0)
}

func (l *limits) enter(ctx context.Context, route string, take bool) error {
	l.mu.Lock()
	for {
		now := time.Now()
		if ctx.Err() != nil {
			l.mu.Unlock()
			return late(ctx, route)
		}
		if d := l.mutedLocked(now); d > 0 {
			l.mu.Unlock()
			return muted(route, d)
		}
		at := l.opensLocked(route, now)
		if !at.After(now) {
			if take {
				l.takeLocked(route, now)
			}
			l.mu.Unlock()
			return nil
		}
		deadline, hasOne := ctx.Deadline()
		if hasOne && at.Add(answerReserve).After(deadline) {
			l.mu.Unlock()
			return limited(route, at.Sub(now))
		}
		changed := l.changed
		l.mu.Unlock()
		timer := time.NewTimer(at.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		l.mu.Lock()
	}
}

// opensLocked is when a request on the route could leave. l.mu must be held.
func (l *limits) opensLocked(route string, now time.Time) time.Time {
	at := later(now, l.banned)
	if !exempt(route) {
		at = later(at, l.closed)
		at = later(at, later(l.full, now).Add(-(botBurst-1)*botEvery))
	}
	if b := l.routes[route]; b != nil && !b.free && b.left <= 0 {
		at = later(at, b.reset)
	}
	return at
}

// takeLocked counts one request. l.mu must be held.
func (l *limits) takeLocked(route string, now time.Time) {
	l.sweepLocked(now)
	if !exempt(route) {
		l.full = later(l.full, now).Add(botEvery)
	}
	b := l.routes[route]
	if b == nil {
		b = &bucket{}
		l.routes[route] = b
	}
	b.usedAt = now
	if !b.reset.After(now) {
		b.left, b.reset = max(b.limit, 1), now.Add(max(b.window, unknownWindow))
	}
	b.left--
}

// seen heeds the answer to a request that wait let through. A status of 0 means that none came.
func (l *limits) seen(route string, h http.Header, status int) {
	if status == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	scope := h.Get("X-RateLimit-Scope")
	if scope != "shared" {
		l.countLocked(status, now)
	}
	b := l.bucketLocked(route, h.Get("X-RateLimit-Bucket"))
	b.usedAt = now
	limit, err := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	left, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	after, ok := seconds(h.Get("X-RateLimit-Reset-After"))
	switch {
	case err == nil && err2 == nil && ok:
		b.heed(max(limit, 1), left, after, now)
	case b.limit == 0:
		b.free = true
	}
	if status == http.StatusTooManyRequests {
		l.penaliseLocked(b, h, scope, now)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// heed takes over what an answer says. Requests still under way are known to us only: within a
// window the smaller number counts.
func (b *bucket) heed(limit, left int, after time.Duration, now time.Time) {
	reset := now.Add(after)
	fresh := b.limit == 0 || reset.After(b.reset.Add(b.window/2))
	if !fresh {
		left = min(left, b.left)
	}
	b.free, b.limit, b.left, b.reset = false, limit, left, reset
	b.window = max(b.window, after)
}

// penaliseLocked closes what a 429 is about. l.mu must be held.
func (l *limits) penaliseLocked(b *bucket, h http.Header, scope string, now time.Time) {
	until := now.Add(max(retryAfter(h), leastPenalty))
	switch {
	case isGlobal(h):
		l.closed = later(l.closed, until)
	case scope == "" && h.Get("X-RateLimit-Bucket") == "": // not the API: what stands before it
		l.banned = later(l.banned, until)
	default:
		b.free, b.left, b.reset = false, 0, later(b.reset, until)
	}
}

// bucketLocked is the bucket of a route, now that Discord has named it. l.mu must be held.
func (l *limits) bucketLocked(route, name string) *bucket {
	b := l.routes[route]
	if name == "" {
		if b == nil {
			b = &bucket{}
			l.routes[route] = b
		}
		return b
	}
	key := name + " " + topLevel(route)
	if known := l.buckets[key]; known != nil {
		l.routes[route] = known
		return known
	}
	if b == nil || b.limit != 0 { // the second: the route has moved to another bucket
		b = &bucket{}
		l.routes[route] = b
	}
	l.buckets[key] = b
	return b
}

// countLocked counts what Discord counts as an invalid request, and what looks like a loop that
// does not learn: asking again and again for what is not there. l.mu must be held.
func (l *limits) countLocked(status int, now time.Time) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
	default:
		return
	}
	minute := now.Unix() / 60
	t := &l.refused[minute%refusedMinutes]
	if t.minute != minute {
		*t = tally{minute: minute}
	}
	t.count++
}

// mutedLocked is for how long nothing may leave because too much was refused; 0 if it may. l.mu
// must be held.
func (l *limits) mutedLocked(now time.Time) time.Duration {
	minute := now.Unix() / 60
	sum, oldest := 0, minute
	for _, t := range l.refused {
		if t.count > 0 && t.minute > minute-refusedMinutes {
			sum += t.count
			oldest = min(oldest, t.minute)
		}
	}
	if sum < maxRefused {
		return 0
	}
	return time.Unix((oldest+refusedMinutes)*60, 0).Sub(now)
}

// bury notes that Discord refused the token of a route's web hook. Asking again would only count
// against the bot.
func (l *limits) bury(route string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[topLevel(route)] = time.Now().Add(capabilityFor)
}

// buried reports whether Discord has refused the token of a route's web hook.
func (l *limits) buried(route string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead[topLevel(route)].After(time.Now())
}

// sweepLocked now and then forgets the buckets nobody uses. l.mu must be held.
func (l *limits) sweepLocked(now time.Time) {
	if now.Sub(l.sweptAt) < forgetAfter {
		return
	}
	l.sweptAt = now
	idle := func(_ string, b *bucket) bool {
		return now.Sub(b.usedAt) >= forgetAfter && !b.reset.After(now)
	}
	maps.DeleteFunc(l.routes, idle)
	maps.DeleteFunc(l.buckets, idle)
	maps.DeleteFunc(l.dead, func(_ string, until time.Time) bool { return !until.After(now) })
}

// exempt reports whether a route does not count against the bot: answers to interactions carry
// their own token.
func exempt(route string) bool {
	_, path, _ := strings.Cut(route, " ")
	return strings.HasPrefix(path, "/webhooks/")
}

// topLevel is the part of a route by which Discord tells limits apart: a channel, a guild, or a web
// hook with its token.
func topLevel(route string) string {
	_, path, _ := strings.Cut(route, " ")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	n := 0
	switch segments[0] {
	case "channels", "guilds":
		n = 2
	case "webhooks":
		n = 3
	}
	return strings.Join(segments[:min(n, len(segments))], "/")
}

// isGlobal reports whether a 429 is about the whole bot.
func isGlobal(h http.Header) bool {
	return h.Get("X-RateLimit-Global") == "true" || h.Get("X-RateLimit-Scope") == "global"
}

// retryAfter is how long a 429 asks to be left alone; 0 when it does not say.
func retryAfter(h http.Header) time.Duration {
	d, _ := seconds(h.Get("Retry-After"))
	after, _ := seconds(h.Get("X-RateLimit-Reset-After"))
	return max(d, after)
}

// seconds reads a number of seconds with or without a fraction. More than a day is a day.
func seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return time.Duration(min(f, (24*time.Hour).Seconds()) * float64(time.Second)), true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// limited is why a request whose turn comes after its deadline does not leave.
func limited(route string, d time.Duration) *apiError {
	return &apiError{Route: route, Sent: sentNever, RetryAfter: d, Message: "rate limited"}
}

// muted is why a request does not leave while too many were refused.
func muted(route string, d time.Duration) *apiError {
	return &apiError{Route: route, Sent: sentNever, RetryAfter: d, Message: "Discord refused too many requests"}
}

// late is why a request does not leave after its context's end.
func late(ctx context.Context, route string) *apiError {
	return &apiError{Route: route, Sent: sentNever, Message: "not before the deadline", cause: ctx.Err()}
}
