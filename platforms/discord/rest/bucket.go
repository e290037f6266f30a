package rest

import (
	"maps"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// unknownWindow is how long the next request of a route waits for the first answer, which names the route's limit.
	unknownWindow = time.Second
	// forgetAfter is how long an unused bucket is remembered.
	forgetAfter = 10 * time.Minute
)

// bucket is the state of one of Discord's rate limits.
type bucket struct {
	free   bool          // Discord names no limit
	limit  int           // requests per window; 0 until known
	left   int           // in the window
	window time.Duration // the longest that Discord has named
	reset  time.Time     // when the window ends
	usedAt time.Time
	served map[relay.InstanceID]uint64 // the number (limiter.number) of each instance's last request
}

// opens returns when a request may leave after ahead other requests of the bucket. While the limit is unknown, opens
// does not reckon with how many they are.
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
		return ratelimit.Later(now, b.reset)
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

// heed takes over the limit from an answer. Discord does not count the requests still under way, so within a window the
// smaller number holds.
func (b *bucket) heed(limit, left int, after time.Duration, now time.Time) {
	reset := now.Add(after)
	fresh := b.limit == 0 || reset.After(b.reset.Add(b.window/2))
	if !fresh {
		left = min(left, b.left)
	}
	b.free, b.limit, b.left, b.reset = false, limit, left, reset
	b.window = max(b.window, after)
}

// buckets holds the buckets of a bot. Routes that Discord counts together share one.
type buckets struct {
	routes map[string]*bucket
	named  map[string]*bucket // by Discord's name and the top-level id
}

// of returns the bucket of a route.
func (s *buckets) of(route string, now time.Time) *bucket {
	b := s.routes[route]
	if b == nil {
		b = &bucket{usedAt: now}
		s.routes[route] = b
	}
	return b
}

// name returns the bucket of a route, now that Discord has named it (empty: it has not).
func (s *buckets) name(route, name string, now time.Time) *bucket {
	b := s.of(route, now)
	if name == "" {
		return b
	}
	key := name + " " + topLevel(route)
	if known := s.named[key]; known != nil {
		s.routes[route] = known
		return known
	}
	if b.limit != 0 { // the route has moved to another bucket
		b = &bucket{}
		s.routes[route] = b
	}
	s.named[key] = b
	return b
}

// sweep forgets the buckets nobody uses.
func (s *buckets) sweep(now time.Time) {
	idle := func(_ string, b *bucket) bool {
		return now.Sub(b.usedAt) >= forgetAfter && !b.reset.After(now)
	}
	maps.DeleteFunc(s.routes, idle)
	maps.DeleteFunc(s.named, idle)
}
