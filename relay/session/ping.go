package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

const (
	pingEvery = 25 * time.Second
	pongTime  = 30 * time.Second
	// signTime is how long Answers waits for a pong.
	signTime = 3 * time.Second
)

// startPings sends a ping every pingEvery, counted from the last pong, until live ends and stopPings is called.
// Between two pings there is a timer and no goroutine: most sessions are silent most of the time.
func (s *Session) startPings(live context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned.Add(1)
	s.ping = time.AfterFunc(pingEvery, func() {
		s.pingOnce(live)
		s.mu.Lock()
		defer s.mu.Unlock()
		if live.Err() != nil {
			s.owned.Done()
			return
		}
		s.ping.Reset(pingEvery)
	})
}

// stopPings is called once live has ended. It does not wait for a ping that is under way; Run does.
func (s *Session) stopPings() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ping.Stop() {
		s.owned.Done()
	}
}

// Answers asks the peer for a sign of life and reports whether it gave one within three seconds, and before ctx
// ended. It does not end the session.
func (s *Session) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// pingOnce asks the peer for a sign of life. Only a missing pong, or an error of the socket, ends the session: a frame
// that the gateway leaves unanswered does not. It returns early when ctx ends.
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
		// The library gives a ping 5 s to get past a frame that is being written. That frame has a deadline of its own,
		// which decides.
	default:
		s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
	}
}
