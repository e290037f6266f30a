package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

var errTooLarge = &Closed{Code: websocket.StatusMessageTooBig, Reason: "frame over 1 MiB"}

// firstRead is how much of a message is read at first; more is read as it comes.
const firstRead = 1 << 10

// contexts are the contexts for the work that a frame starts; see Run. never does not end: if the context of a read or
// a write did, the library would close the socket without a word.
type contexts struct{ never, live, socket, work context.Context }

// read handles the gateway's frames until the connection ends. While the session ends it continues to read, so that the
// close handshake can finish, and ignores the frames. It waits here, where its stack is small.
func (s *Session) read(c *contexts) {
	s.conn.SetReadLimit(-1) // message has a limit of its own, with our reason
	defer s.finished()
	for {
		err := s.conn.meter.await()
		if err == nil {
			err = s.receive(c)
		}
		if err != nil {
			s.lost(err)
			return
		}
	}
}

// receive reads one message, charges the gateway for it, and handles the frames in it. If only pings and pongs came, it
// returns after these.
func (s *Session) receive(c *contexts) error {
	message, err := s.message(c.never)
	switch {
	case errors.Is(err, errIdle):
		return nil
	case err != nil:
		return err
	}
	lines, err := s.split.Feed(message)
	if errors.Is(err, wire.ErrTooMany) {
		return tooManyFrames
	}
	if len(lines) > 0 || s.split.Held() == 0 {
		s.finished()
	}
	if s.split.Held() > 0 {
		s.begun()
	}
	s.spend(max(1, len(lines))*frameCost, tooManyFrames)
	at := time.Now()
	for _, line := range lines {
		if s.why() == nil {
			s.frame(*c, line, at)
		}
	}
	if err != nil {
		return errTooLarge
	}
	return nil
}

// message reads one WebSocket message; text or binary makes no difference. ctx must not end. The error is errIdle if no
// message has begun.
func (s *Session) message(ctx context.Context) ([]byte, error) {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	s.begun()
	message := []byte(nil)
	most := wire.MaxFrame - s.split.Held() // until a newline ends the unfinished frame
	for {
		if len(message) == cap(message) { // io.ReadAll would make four times as much garbage
			message = slices.Grow(message, min(max(firstRead, cap(message)), most+1-len(message)))
		}
		n, err := r.Read(message[len(message):cap(message)])
		message = message[:len(message)+n]
		if bytes.IndexByte(message[len(message)-n:], '\n') >= 0 {
			most = wire.MaxFrame
		}
		if errors.Is(err, errIdle) { // between two fragments
			err = s.conn.meter.await()
		}
		switch {
		case len(message) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return message, nil
		case err != nil:
			return nil, err
		}
	}
}

// lost ends the session for an error of message.
func (s *Session) lost(err error) {
	if code := websocket.CloseStatus(err); code != -1 {
		s.endWith(fmt.Errorf("%w: code %d", ErrHungUp, int(code)))
	} else if e, ok := errors.AsType[*excess](err); ok {
		s.overLimit(e)
	} else if c, ok := errors.AsType[*Closed](err); ok {
		s.endWith(c)
	} else {
		s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
	}
}

// begun notes the first byte of a frame, finished the last: in between it may not take for ever.
func (s *Session) begun() {
	if s.unfinished == nil {
		s.unfinished = time.AfterFunc(frameTime, func() { s.overLimit(tooLong) })
	}
}

func (s *Session) finished() {
	if s.unfinished != nil {
		s.unfinished.Stop()
		s.unfinished = nil
	}
}

// frame decodes one line, which was read at the time at, charges the gateway for it, and handles it.
func (s *Session) frame(c contexts, line []byte, at time.Time) {
	defer s.recovered("frame")
	f, err := wire.DecodeFromGateway(line)
	switch {
	case errors.Is(err, wire.ErrNotObject):
		s.o.Count(count.SessionBadFrame)
		s.endWith(&Closed{Code: websocket.StatusInvalidFramePayloadData, Reason: "frame is not a JSON object"})
		return
	case err != nil:
		s.fault(count.SessionBadFrame)
		return
	}
	switch f := f.(type) {
	case wire.Hello:
		if s.spend(helloCost, tooManyHellos) {
			s.aside(func() { s.greet(c, f) })
		}
	case wire.Outbound:
		s.outbound(c.work, f.Request, len(line), at)
	case wire.InboundAck:
		s.acknowledge(c.socket, f.Buffer, len(line))
	case wire.GoingIdle:
		if s.spend(idleCost, tooManyIdles) {
			s.goingIdle(c.socket)
		}
	case wire.Interrupt:
		if s.spend(interruptCost, tooManyInterrupts) {
			s.h.Interrupt(c.socket, f.Session, f.Reason)
		}
	default:
		s.o.Count(count.SessionUnknownFrame)
	}
}

// aside runs work that needs a deep stack on a goroutine of its own and waits for it: the reader's stack stays with the
// idle session, and a stack that has grown shrinks only slowly.
func (s *Session) aside(do func()) {
	done := make(chan struct{})
	s.owned.Go(func() {
		defer close(done)
		defer s.recovered("frame")
		do()
	})
	<-done
}

// acknowledge passes an acknowledgement to the handler. Its line has n bytes, which are not charged if the
// acknowledgement counts.
func (s *Session) acknowledge(ctx context.Context, buffer string, n int) {
	id, err := relay.ParseBufferID(buffer)
	if err != nil {
		s.fault(count.SessionBadAck)
		return
	}
	switch counted, err := s.h.Ack(ctx, id); {
	case err != nil:
		if ctx.Err() == nil {
			s.endBy(err)
		}
	case counted:
		s.conn.meter.excuse(n)
	default:
		s.fault(count.AckIgnored)
	}
}

// recovered is deferred around one frame, one action or one flip, so that a panic there costs nothing else.
func (s *Session) recovered(what string) {
	if v := recover(); v != nil {
		s.panicked(what, v)
	}
}

// panicked counts and logs a panic.
func (s *Session) panicked(what string, v any) {
	s.o.Count(count.SessionPanic)
	s.log().Error("panic", "in", what, "panic", relay.PanicWords(v), "stack", string(debug.Stack()))
}
