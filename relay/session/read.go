package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

var (
	errTooLarge = &Closed{Code: websocket.StatusMessageTooBig, Reason: "frame over 1 MiB"}
	errNoRoom   = errors.New("too many unfinished frames")
)

// contexts are the ends that matter to what a frame starts; see Run.
type contexts struct{ live, socket, work context.Context }

// read handles the gateway's frames until the connection ends. Once the session is ending it
// reads on, so that the close handshake can finish, and looks at nothing.
func (s *Session) read(c contexts) {
	s.conn.SetReadLimit(-1) // message has its own, with a reason of ours
	defer s.hold(0)
	for {
		message, err := s.message(context.WithoutCancel(c.socket))
		if err != nil {
			s.lost(err)
			return
		}
		lines, err := s.split.Feed(message)
		if errors.Is(err, wire.ErrTooMany) {
			s.overLimit("too many frames", CountManyFrames)
			return
		}
		if len(lines) > 0 || !s.split.Unfinished() {
			s.finished()
		}
		if s.split.Unfinished() {
			s.begun()
		}
		s.spend(&s.limits.frames, max(1, len(lines)), "too many frames", CountManyFrames)
		at := time.Now()
		for _, line := range lines {
			if s.why() == nil {
				s.frame(c, line, at)
			}
		}
		if err != nil {
			s.endWith(errTooLarge)
			return
		}
		s.hold(s.split.Held())
	}
}

// message reads one WebSocket message; text or binary makes no difference. ctx must not end: the
// library would close the socket without a word.
func (s *Session) message(ctx context.Context) ([]byte, error) {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	s.begun()
	from := s.conn.meter.message(r)
	message := []byte(nil)
	most := wire.MaxFrame - s.split.Held() // until a newline ends what is held
	for {
		if len(message) == cap(message) { // io.ReadAll would make four times as much garbage
			more := min(max(readBuffer, cap(message)), most+1-len(message))
			if !s.hold(s.split.Held() + cap(message) + more) {
				return nil, errNoRoom
			}
			message = slices.Grow(message, more)
		}
		n, err := from.Read(message[len(message):cap(message)])
		message = message[:len(message)+n]
		if bytes.IndexByte(message[len(message)-n:], '\n') >= 0 {
			most = wire.MaxFrame
		}
		switch {
		case len(message) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			s.conn.meter.finished()
			return message, nil
		case err != nil:
			return nil, err
		}
	}
}

// hold charges the gateway's room with the n bytes that this session now holds of frames not yet
// handled, and reports whether they fit. Only the reader calls it.
func (s *Session) hold(n int) bool {
	charge := max(0, n-freeReading)
	if charge != s.charged && !s.o.Room.read(s, charge) {
		return false
	}
	s.charged = charge
	return true
}

// lost ends the session for an error of message.
func (s *Session) lost(err error) {
	switch code := websocket.CloseStatus(err); {
	case code != -1:
		s.endWith(fmt.Errorf("%w: code %d", ErrHungUp, int(code)))
	case errors.Is(err, errTooLarge):
		s.endWith(errTooLarge)
	case errors.Is(err, errManyBytes):
		s.overLimit(errManyBytes.Error(), CountManyBytes)
	case errors.Is(err, errNoRoom):
		s.overLimit(errNoRoom.Error(), CountNoRoom)
	case errors.Is(err, errMuchFraming):
		s.overLimit(errMuchFraming.Error(), CountMuchFraming)
	default:
		s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
	}
}

// begun notes the first byte of a frame, finished the last: in between it may not take for ever.
func (s *Session) begun() {
	if !s.reading {
		s.reading = true
		s.unfinished.Reset(frameTime)
	}
}

func (s *Session) finished() {
	s.reading = false
	s.unfinished.Stop()
}

// frame handles one line.
func (s *Session) frame(c contexts, line []byte, at time.Time) {
	defer s.recovered("frame")
	f, err := wire.DecodeFromGateway(line)
	switch {
	case errors.Is(err, wire.ErrNotObject):
		s.o.Count(CountBadFrame)
		s.endWith(&Closed{Code: websocket.StatusInvalidFramePayloadData, Reason: "frame is not a JSON object"})
		return
	case err != nil:
		s.fault(CountBadFrame)
		return
	}
	switch f := f.(type) {
	case wire.Hello:
		if s.spend(&s.limits.hellos, 1, "too many hellos", CountManyHellos) {
			s.greet(c, f)
		}
	case wire.Outbound:
		s.outbound(c.work, f.Request, len(line), at)
	case wire.InboundAck:
		s.acknowledge(c.socket, f.Buffer, len(line))
	case wire.GoingIdle:
		if s.spend(&s.limits.idles, 1, "too many going_idle", CountManyIdles) {
			s.goingIdle(c.socket)
		}
	case wire.Interrupt:
		if s.spend(&s.limits.interrupts, 1, "too many interrupts", CountManyInterrupts) {
			s.h.Interrupt(c.socket, f.Session, f.Reason)
		}
	default:
		s.o.Count(CountUnknownFrame)
	}
}

// acknowledge hands in an acknowledgement, whose line has n bytes. One that counts is free.
func (s *Session) acknowledge(ctx context.Context, buffer string, n int) {
	id, err := relay.ParseBufferID(buffer)
	if err != nil {
		s.fault(CountBadAck)
		return
	}
	switch counted, err := s.h.Ack(ctx, id); {
	case err != nil:
		if ctx.Err() == nil {
			s.endBy(err)
		}
	case counted:
		s.limits.frames.giveBack(1)
		s.conn.meter.excuse(n)
	default:
		s.fault(CountIgnoredAck)
	}
}

// recovered is deferred around one frame, one action, one flip: nothing else goes down with it.
func (s *Session) recovered(what string) {
	if v := recover(); v != nil {
		s.panicked(what, v)
	}
}

// panicked counts and logs a panic. Its value may quote what people wrote; a runtime error's
// does not.
func (s *Session) panicked(what string, v any) {
	s.o.Count(CountPanic)
	text := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		text = err.Error()
	}
	s.log.Error("panic", "in", what, "panic", text, "stack", string(debug.Stack()))
}
