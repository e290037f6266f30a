package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

const (
	pingEvery = 25 * time.Second
	pongTime  = 30 * time.Second
	// signTime is how long whoever wants to know it now waits for a pong.
	signTime = 3 * time.Second
)

// pinger pings every pingEvery, counted from the last pong. Between two pings it is a timer and no
// goroutine: most sessions are silent most of the time.
type pinger struct {
	owner *sync.WaitGroup // told when the last ping is over; set once, by start

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	stopped bool
}

// start begins. once sends a ping and waits for the pong.
func (p *pinger) start(owner *sync.WaitGroup, once func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner = owner
	owner.Add(1)
	p.timer = time.AfterFunc(pingEvery, func() {
		once()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stopped {
			owner.Done()
			return
		}
		p.timer.Reset(pingEvery)
	})
}

// stop ends the pings. It does not wait for one that is under way; the owner does.
func (p *pinger) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer.Stop() {
		p.owner.Done()
	}
}

// Answers asks the peer for a sign of life and reports whether it gave one within three seconds, or
// before ctx ended. It judges nothing: a gateway whose host is gone and one that is slow look the same.
func (s *Session) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// pingOnce asks the peer for a sign of life. Pongs judge the socket; frames the gateway does not
// answer never do. It returns early when ctx ends.
func (s *Session) pingOnce(ctx context.Context) {
	pong, cancel := context.WithTimeout(ctx, pongTime)
	defer cancel()
	err := s.conn.Ping(pong)
	switch {
	case err == nil || ctx.Err() != nil:
	case pong.Err() != nil:
		if s.endWith(fmt.Errorf("%w: no pong within %v", ErrLost, pongTime)) {
			s.o.Count(count.SessionNoPong)
		}
	case errors.Is(err, context.DeadlineExceeded):
		// The library gives a ping 5 s to get past a frame being written. That frame has a
		// deadline of its own, which judges.
	default:
		s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
	}
}
