package session

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// closeTime bounds the close handshake, and before it the flush at a shutdown.
const closeTime = 2 * time.Second

// Run serves the session until the gateway is gone, the owner ends it, or ctx ends, and returns why: nil if ctx ended
// it, else a *Closed, or an error that wraps ErrHungUp or ErrLost. It is the reader, and owns the handler's Pump and,
// while there is something to do, a writer, pings, the handler's GoingIdle and the workers of actions; none of them
// outlives it.
//
// When ctx ends, no new action is taken, those that were are finished, each within its own
// deadline, their results are flushed, and the gateway is told 1001. When the socket ends
// otherwise, actions that were read are still carried out; their results go nowhere. Once hurry
// ends, actions are cut short.
func (s *Session) Run(ctx, hurry context.Context) error {
	r := s.start(ctx, hurry)
	defer r.stop()
	s.read(&r.contexts) // runs nearly all the time, so there is little below it on the stack
	s.owned.Wait()
	s.acts.running.Wait()
	return r.cause
}

// run is one Run.
type run struct {
	contexts
	cause error  // the result of Run; set by conclude
	stop  func() // releases the resources of start
}

// start makes the contexts of the session, and starts everything that does not wait for the gateway: the pings, the
// wait for a hello, the writer, and what happens at the end.
func (s *Session) start(ctx, hurry context.Context) *run {
	// live ends when the session begins to end; it is for the pump. socket ends after the drain; it is for the reader.
	// hurry ends when actions are out of time; it is for them.
	live, end := context.WithCancelCause(ctx) // it ends at once with ctx, so that a takeover after that is not its cause
	never := context.WithoutCancel(ctx)
	socket, gone := context.WithCancelCause(never)
	r := &run{contexts: contexts{never, live, socket, hurry}}
	s.unheard = time.AfterFunc(s.o.Hello, s.noHello)
	s.startPings(live)
	var ends atomic.Bool
	s.owned.Add(1) // for conclude, which happens once, and before the reader ends
	conclude := func() {
		defer s.owned.Done()
		s.stopPings()
		r.cause = s.conclude(socket, gone)
	}
	unstop := context.AfterFunc(ctx, func() {
		end(context.Cause(ctx)) // or conclude could have the reader fail before live ends with ctx
		if !ends.Swap(true) {
			conclude()
		}
	})
	s.endable(func(cause error) {
		end(cause)
		if !ends.Swap(true) {
			go conclude()
		}
	})
	s.out.open(func() { s.owned.Go(func() { s.write(never) }) })
	r.stop = func() {
		if s.unheard != nil {
			s.unheard.Stop()
		}
		unstop()
		end(nil)
		gone(nil)
	}
	return r
}

// conclude ends a session that has begun to end: it refuses further actions; when the connector stops, it waits until
// the others are answered and their results are sent; then it ends the context socket with gone, and closes the
// connection. It returns the result of Run.
func (s *Session) conclude(socket context.Context, gone context.CancelCauseFunc) error {
	s.acts.refuse()
	cause := s.why()
	if cause == nil { // Run's context ended
		select {
		case <-s.acts.done:
		case <-s.ended: // the socket did not last
		}
		flush := time.NewTimer(closeTime)
		defer flush.Stop()
		select {
		case <-s.out.close(true):
		case <-s.ended:
		case <-flush.C:
		}
	}
	gone(cause)
	s.out.close(false)
	s.hangUp(socket, cause)
	return cause
}

// endable lets endWith end the session through end, also if it was called before Run.
func (s *Session) endable(end context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	if s.cause != nil {
		end(s.cause)
	}
}

// why returns the cause with which the session ended; nil means that Run's context ended it.
func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// hangUp closes the connection, after telling the gateway why if this side ended the session. It
// returns within closeTime. over is a context that has ended.
func (s *Session) hangUp(over context.Context, cause error) {
	told := &Closed{Code: websocket.StatusGoingAway, Reason: "going away"}
	if cause != nil && !errors.As(cause, &told) {
		_ = s.conn.CloseNow() // nobody is there to be told
		return
	}
	// The library's handshake may take 10 s, and CloseNow would only wait for it. CloseRead with
	// a context that has ended gives up at once, and takes the socket with it.
	late := time.AfterFunc(closeTime, func() { s.conn.CloseRead(over) })
	defer late.Stop()
	_ = s.conn.Close(told.Code, told.Reason)
}
