package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pingEvery = 25 * time.Second
	pongTime  = 30 * time.Second
)

// ping asks the peer for a sign of life until ctx ends. Pongs judge the socket; frames the
// gateway does not answer never do.
func (s *Session) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.pingOnce(ctx)
	}
}

func (s *Session) pingOnce(ctx context.Context) {
	pong, cancel := context.WithTimeout(ctx, pongTime)
	defer cancel()
	err := s.conn.Ping(pong)
	switch {
	case err == nil || ctx.Err() != nil:
	case pong.Err() != nil:
		if s.endWith(fmt.Errorf("%w: no pong within %v", ErrLost, pongTime)) {
			s.o.Count(CountNoPong)
		}
	case errors.Is(err, context.DeadlineExceeded):
		// The library gives a ping 5 s to get past a frame being written. That frame has a
		// deadline of its own, which judges.
	default:
		s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
	}
}
