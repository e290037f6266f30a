package session

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// helloTime is how long a socket may live without a hello, unless Options say otherwise.
const helloTime = 30 * time.Second

// noHello ends a session whose gateway has sent no hello in time.
func (s *Session) noHello() {
	if s.endWith(&Closed{Code: websocket.StatusPolicyViolation, Reason: "no hello"}) {
		s.o.Count(count.SessionNoHello)
	}
}

// greet waits until the last going_idle is answered, makes the handler answer a hello, and starts the pump after the
// first hello.
func (s *Session) greet(c contexts, f wire.Hello) {
	if s.idle != nil {
		select {
		case <-s.idle:
		case <-c.socket.Done():
		}
	}
	if c.live.Err() != nil {
		return // nothing begins on a session that ends
	}
	if err := s.h.Hello(c.socket, f); err != nil {
		s.endBy(err)
		return
	}
	if s.greeted {
		return
	}
	s.greeted = true
	s.unheard.Stop()
	s.unheard = nil
	s.owned.Add(1)
	s.owned.Go(func() {
		s.h.Pump(c.live, s.owned.Go, func(err error) {
			defer s.owned.Done()
			if err != nil && c.live.Err() == nil {
				s.endBy(err)
			}
		})
	})
}

// goingIdle makes the handler answer a going_idle beside the reader, one at a time. The flip waits for the frame being
// pushed, and meanwhile acknowledgements must be read. Only the reader calls it.
func (s *Session) goingIdle(ctx context.Context) {
	before, done := s.idle, make(chan struct{})
	s.idle = done
	s.owned.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		s.flip(ctx)
	})
}

// flip makes the handler stop pushing, and queues the answer to the going_idle.
func (s *Session) flip(ctx context.Context) {
	defer s.recovered("going_idle")
	err := s.h.GoingIdle(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.endBy(err)
	default:
		s.Tell(wire.GoingIdleAck{})
	}
}
