package hub

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hermes-connector/hermes-connector/relay"
)

// How many connections one credential may have. A gateway has one, and dials again a second after it lost that, at the
// earliest.
const (
	// maxSockets is how many sockets one gateway may have: the one through which it speaks, and others that have not
	// said hello; if there are too many, the oldest of these is closed.
	maxSockets = 4
	maxSilent  = maxSockets - 1
	// maxSessions is how many sessions one gateway may have, with those that are ending while their actions run on. A
	// further one is refused.
	maxSessions = 2 * maxSockets
	// A gateway may dial dialBurst times at once, and dialRate times a second after that.
	dialBurst = 60
	dialRate  = 1
	// barredFor is how long a credential is refused after a session that exceeded a limit: each session has a budget of
	// its own, and dialling again must gain nothing.
	barredFor = 30 * time.Second
)

// sockets holds the live sessions of every gateway, and limits them. The zero value is ready. Its methods may be called
// from any goroutine.
type sockets struct {
	mu sync.Mutex // guards by and its values, and silent of every attachment
	by map[relay.GatewayID]*dialler
}

// dialler is one gateway. The record stays after the gateway's last session, for the count of dials; credentials are
// few.
type dialler struct {
	dials    *rate.Limiter
	barred   time.Time     // until when
	attached []*attachment // oldest first
}

// enter adds s to its gateway's sessions, or returns false if there are too many sessions or dials, or the credential
// is barred. surplus is the silent session to close; nil: none.
func (c *sockets) enter(s *attachment) (surplus *attachment, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.by[s.peer.Gateway]
	if x == nil {
		if c.by == nil {
			c.by = make(map[relay.GatewayID]*dialler)
		}
		x = &dialler{dials: rate.NewLimiter(dialRate, dialBurst)}
		c.by[s.peer.Gateway] = x
	}
	now := time.Now()
	if now.Before(x.barred) || len(x.attached) >= maxSessions || !x.dials.AllowN(now, 1) {
		return nil, false
	}
	s.silent = true
	x.attached = append(x.attached, s)
	silent := 0
	for _, o := range slices.Backward(x.attached) {
		if o.silent {
			silent++
		}
		if silent > maxSilent {
			o.silent = false
			return o, true
		}
	}
	return nil, true
}

// bar refuses a credential for a while.
func (c *sockets) bar(g relay.GatewayID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[g].barred = time.Now().Add(barredFor)
}

// speaks notes that s has said hello.
func (c *sockets) speaks(s *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.silent = false
}

// leave removes a session that entered.
func (c *sockets) leave(s *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.by[s.peer.Gateway]
	x.attached = slices.DeleteFunc(x.attached, func(o *attachment) bool { return o == s })
}

// of returns the live sessions of a gateway.
func (c *sockets) of(g relay.GatewayID) []*attachment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.by[g]; x != nil {
		return slices.Clone(x.attached)
	}
	return nil
}
