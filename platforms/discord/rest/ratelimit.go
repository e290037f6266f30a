package rest

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// unknownWindow is how long the next request of a route waits for the answer to the first one, which
	// tells the route's limit.
	unknownWindow = time.Second
	// leastPenalty is how long a 429 that names no time counts.
	leastPenalty = time.Second
	// TokenFor is how long Discord takes answers through an interaction's token
	// (https://docs.discord.com/developers/interactions/receiving-and-responding).
	TokenFor = 15 * time.Minute
	// forgetAfter is how long a bucket nobody uses is remembered.
	forgetAfter = 10 * time.Minute
)

// limiter keeps the bot's requests to the rates Discord names in its answers, and shares them out among
// instances. Routes that Discord counts together share a bucket. A request that cannot leave before its
// deadline fails at once. Methods may be called from any goroutine.
type limiter struct {
	mu      sync.Mutex // guards the fields below
	routes  map[string]*bucket
	buckets map[string]*bucket // by Discord's name and the top-level id
	bot     pace.Meter
	closed  time.Time // end of a penalty on the bot
	banned  time.Time // end of a penalty on our address
	refused refusals
	sweptAt time.Time

	waiting  []*waiter // in the order of arrival
	alarm    *time.Timer
	accounts map[relay.InstanceID]*account
	number   uint64 // of the last request of an instance
	ownInRow int    // requests of the connector's own that left before one of an instance that waits
}

// bucket is what is known about one of Discord's rate limits.
type bucket struct {
	free   bool // Discord names no limit
	limit  int  // requests per window; 0 until known
	left   int
	window time.Duration // the longest Discord ever said
	reset  time.Time     // when the window ends
	usedAt time.Time
	served map[relay.InstanceID]uint64 // each instance's last request, by its number
}

func newLimiter() *limiter {
	l := &limiter{
		bot:      pace.Meter{Rate: botRate},
		routes:   make(map[string]*bucket),
		buckets:  make(map[string]*bucket),
		accounts: make(map[relay.InstanceID]*account),
	}
	l.alarm = time.AfterFunc(forgetAfter, l.serve)
	return l
}

// closedLocked is when the penalties on the bot and on its address end, as far as they are about the route.
// l.mu must be held.
func (l *limiter) closedLocked(route string, now time.Time) time.Time {
	at := pace.Later(now, l.banned)
	if !exempt(route) {
		at = pace.Later(at, l.closed)
	}
	return at
}

// routeLocked is the bucket of a route. l.mu must be held.
func (l *limiter) routeLocked(route string, now time.Time) *bucket {
	b := l.routes[route]
	if b == nil {
		b = &bucket{usedAt: now}
		l.routes[route] = b
	}
	return b
}

// opens is when one more request of the bucket may leave after ahead others have. While the limit is not
// known, the others do not count.
func (b *bucket) opens(ahead int, now time.Time) time.Time {
	if b.free {
		return now
	}
	left, next := max(b.left, 0), b.reset
	if !b.reset.After(now) {
		left, next = max(b.limit, 1), now.Add(b.window)
	}
	switch {
	case ahead < left:
		return now
	case b.limit == 0:
		return pace.Later(now, b.reset)
	}
	return next.Add(time.Duration((ahead-left)/b.limit) * b.window)
}

// take counts one request.
func (b *bucket) take(now time.Time) {
	b.usedAt = now
	if !b.reset.After(now) {
		b.left, b.reset = max(b.limit, 1), now.Add(max(b.window, unknownWindow))
	}
	b.left--
}

// seen heeds the answer to a request that wait let through. A status of 0 means that none came.
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
	b := l.bucketLocked(route, h.Get("X-RateLimit-Bucket"), now)
	b.usedAt = now
	limit, err := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	left, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	after, ok := call.Seconds(h.Get("X-RateLimit-Reset-After"))
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

// heed takes over what an answer says. Discord does not know the requests still under way: within a window
// the smaller number counts.
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
func (l *limiter) penaliseLocked(b *bucket, h http.Header, scope string, now time.Time) {
	until := now.Add(max(retryAfter(h), leastPenalty))
	switch {
	case isGlobal(h):
		l.closed = pace.Later(l.closed, until)
	case scope == "" && h.Get("X-RateLimit-Bucket") == "": // not the API: what stands before it
		l.banned = pace.Later(l.banned, until)
	default:
		b.free, b.left, b.reset = false, 0, pace.Later(b.reset, until)
	}
}

// bucketLocked is the bucket of a route, now that Discord has named it. l.mu must be held.
func (l *limiter) bucketLocked(route, name string, now time.Time) *bucket {
	b := l.routeLocked(route, now)
	if name == "" {
		return b
	}
	key := name + " " + topLevel(route)
	if known := l.buckets[key]; known != nil {
		l.routes[route] = known
		return known
	}
	if b.limit != 0 { // the route has moved to another bucket
		b = &bucket{}
		l.routes[route] = b
	}
	l.buckets[key] = b
	return b
}

// sweepLocked now and then forgets the buckets nobody uses. l.mu must be held.
func (l *limiter) sweepLocked(now time.Time) {
	if now.Sub(l.sweptAt) < forgetAfter {
		return
	}
	l.sweptAt = now
	idle := func(_ string, b *bucket) bool {
		return now.Sub(b.usedAt) >= forgetAfter && !b.reset.After(now)
	}
	maps.DeleteFunc(l.routes, idle)
	maps.DeleteFunc(l.buckets, idle)
	maps.DeleteFunc(l.accounts, func(_ relay.InstanceID, a *account) bool { return a.share.Recovered(now) })
	maps.DeleteFunc(l.refused.noes, func(_ string, n no) bool { return !n.until.After(now) })
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
	d, _ := call.Seconds(h.Get("Retry-After"))
	after, _ := call.Seconds(h.Get("X-RateLimit-Reset-After"))
	return max(d, after)
}
