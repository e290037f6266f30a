package session

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const helloTime = 30 * time.Second

// noHello ends a session that never introduced itself.
func (s *Session) noHello() {
	if s.endWith(&Closed{Code: websocket.StatusPolicyViolation, Reason: "no hello"}) {
		s.o.Count(count.SessionNoHello)
	}
}

// greet has a hello answered, and starts the pump behind the first one.
func (s *Session) greet(c contexts, f wire.Hello) {
	if !s.idle.wait(c.socket) || c.live.Err() != nil {
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

// idler runs the handler's GoingIdle beside the reader, one at a time. The flip waits for the
// frame being pushed, and meanwhile acknowledgements must be read.
type idler struct {
	mu    sync.Mutex    // guards the fields below
	asked int           // going_idle frames not answered yet
	done  chan struct{} // closed when asked comes back to 0; nil before the first
}

// wait blocks until no GoingIdle runs; false when ctx ended before. Only the reader calls it.
func (i *idler) wait(ctx context.Context) bool {
	i.mu.Lock()
	done := i.done
	i.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// goingIdle answers a going_idle. Only the reader calls it.
func (s *Session) goingIdle(ctx context.Context) {
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.asked > 1 {
		return // the goroutine below comes round
	}
	done := make(chan struct{})
	i.done = done
	s.owned.Go(func() {
		defer close(done)
		for more := true; more; {
			s.flip(ctx)
			i.mu.Lock()
			i.asked--
			more = i.asked > 0
			i.mu.Unlock()
		}
	})
}

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
