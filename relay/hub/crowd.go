package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
)

// What one credential may hold open. A gateway has one connection, and dials again a second after
// it lost that at the earliest; the one before may still be ending, or be half dead.
const (
	// maxSessions of one gateway at a time, also those that are ending while actions run on.
	maxSessions = 32
	// maxSilent of them may not have said hello. Of more, the oldest goes: the newest is the one
	// a healthy gateway speaks through.
	maxSilent = 8
	// dialBurst connections at once, and dialRate more per second.
	dialBurst = 60
	dialRate  = 1
	// barredFor is how long a credential stays out after a session that passed a limit: budgets
	// are a session's, and dialling again must not fill them up.
	barredFor = 30 * time.Second
	// pause is how long one that is refused waits for the answer, so that it does not dial
	// again at once; at most maxPaused of a credential do.
	pause     = 10 * time.Second
	maxPaused = 32
)

// crowds counts the sessions of every gateway. The zero value is ready. Its methods may be called
// from any goroutine.
type crowds struct {
	pool session.Pool // of what all of them hold of frames

	mu sync.Mutex // guards by
	by map[relay.GatewayID]*crowd
}

// crowd is one gateway's. It stays when the last session is gone, for the dials; credentials are
// few.
type crowd struct {
	dials  *rate.Limiter
	barred time.Time // until when
	paused int       // refused, and not told yet
	open   int
	silent []*seat       // oldest first
	room   *session.Room // what they hold of frames together
}

// enter counts s in, or returns false when there are too many already. surplus is who has been
// silent too long to make room for s; nil is nobody.
func (c *crowds) enter(s *seat) (surplus *seat, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.ofLocked(s.peer.Gateway)
	now := time.Now()
	if now.Before(x.barred) || x.open >= maxSessions || !x.dials.AllowN(now, 1) {
		return nil, false
	}
	x.open++
	x.silent = append(x.silent, s)
	if len(x.silent) > maxSilent {
		surplus = x.silent[0]
		x.silent = slices.Delete(x.silent, 0, 1)
	}
	return surplus, true
}

// room is what the sessions of g share.
func (c *crowds) room(g relay.GatewayID) *session.Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(g).room
}

// ofLocked is the crowd of g. c.mu must be held.
func (c *crowds) ofLocked(g relay.GatewayID) *crowd {
	x := c.by[g]
	if x == nil {
		if c.by == nil {
			c.by = make(map[relay.GatewayID]*crowd)
		}
		x = &crowd{dials: rate.NewLimiter(dialRate, dialBurst), room: c.pool.Room()}
		c.by[g] = x
	}
	return x
}

// bar keeps a credential out for a while.
func (c *crowds) bar(g relay.GatewayID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[g].barred = time.Now().Add(barredFor)
}

// hold lets one that was refused wait, or until ctx ends.
func (c *crowds) hold(ctx context.Context, g relay.GatewayID) {
	c.mu.Lock()
	x := c.by[g]
	if x.paused >= maxPaused {
		c.mu.Unlock()
		return
	}
	x.paused++
	c.mu.Unlock()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x.paused--
}

// turnAway is how long a gateway must wait that has so many connections waiting for their refusal
// that the next one is not even upgraded; 0 when it has not.
func (c *crowds) turnAway(g relay.GatewayID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ofLocked(g).paused >= maxPaused {
		return pause
	}
	return 0
}

// speaks notes that s has said hello.
func (c *crowds) speaks(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[s.peer.Gateway].hushLocked(s)
}

// leave counts out a session that entered.
func (c *crowds) leave(s *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.by[s.peer.Gateway]
	x.open--
	x.hushLocked(s)
}

// hushLocked takes s off the list of the silent. The mu of its crowds must be held.
func (x *crowd) hushLocked(s *seat) {
	x.silent = slices.DeleteFunc(x.silent, func(o *seat) bool { return o == s })
}
