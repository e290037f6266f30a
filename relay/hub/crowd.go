package hub

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hermes-connector/hermes-connector/relay"
)

// What one credential may hold open. A gateway has one connection, and dials again a second after
// it lost that at the earliest; the one before may still be ending, or be half dead.
const (
	// maxSockets of one gateway at a time: the one it speaks through, and others that have not said
	// hello. Of more of those the oldest goes: the newest is the one a healthy gateway will speak through.
	maxSockets = 4
	maxSilent  = maxSockets - 1
	// maxSessions counts those too that are ending, while actions run on. One more is refused.
	maxSessions = 2 * maxSockets
	// dialBurst connections at once, and dialRate more per second.
	dialBurst = 60
	dialRate  = 1
	// barredFor is how long a credential stays out after a session that passed a limit: budgets
	// are a session's, and dialling again must not fill them up.
	barredFor = 30 * time.Second
)

// crowds counts the sessions of every gateway. The zero value is ready. Its methods may be called
// from any goroutine.
type crowds struct {
	mu sync.Mutex // guards by
	by map[relay.GatewayID]*crowd
}

// crowd is one gateway's. It stays when the last session is gone, for the dials; credentials are
// few.
type crowd struct {
	dials  *rate.Limiter
	barred time.Time // until when
	open   int
	silent []*seat // oldest first
}

// enter counts s in, or returns false when there are too many already. surplus is the oldest
// silent session, if there are too many of these now; nil is none.
func (c *crowds) enter(s *seat) (surplus *seat, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.by[s.peer.Gateway]
	if x == nil {
		if c.by == nil {
			c.by = make(map[relay.GatewayID]*crowd)
		}
		x = &crowd{dials: rate.NewLimiter(dialRate, dialBurst)}
		c.by[s.peer.Gateway] = x
	}
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

// bar keeps a credential out for a while.
func (c *crowds) bar(g relay.GatewayID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[g].barred = time.Now().Add(barredFor)
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
	if len(x.silent) == 0 {
		x.silent = nil
	}
}
