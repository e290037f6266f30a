package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

var errTooLarge = &Closed{Code: websocket.StatusMessageTooBig, Reason: "frame over 1 MiB"}

// contexts are the ends that matter to what a frame starts; see Run.
type contexts struct{ live, socket, work context.Context }

// read handles the gateway's frames until the connection ends. Once the session is ending it
// reads on, so that the close handshake can finish, and looks at nothing.
func (s *Session) read(c contexts) {
	s.conn.SetReadLimit(-1) // message has its own, with a reason of ours
	for {
		message, err := s.message(context.WithoutCancel(c.socket))
		if err != nil {
			s.endWith(err)
			return
		}
		lines, err := s.split.Feed(message)
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
	}
}

// message reads one WebSocket message; text or binary makes no difference. ctx must not end: the
// library would close the socket without a word.
func (s *Session) message(ctx context.Context) ([]byte, error) {
	_, r, err := s.conn.Reader(ctx)
	if err == nil {
		var message []byte
		message, err = io.ReadAll(io.LimitReader(r, wire.MaxFrame+1))
		if err == nil && len(message) > wire.MaxFrame {
			return nil, errTooLarge
		}
		if err == nil {
			return message, nil
		}
	}
	if code := websocket.CloseStatus(err); code != -1 {
		return nil, fmt.Errorf("%w: code %d", ErrHungUp, int(code))
	}
	return nil, fmt.Errorf("%w: %w", ErrLost, err)
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
		s.o.Count(CountBadFrame)
		return
	}
	switch f := f.(type) {
	case wire.Hello:
		s.greet(c, f)
	case wire.Outbound:
		s.outbound(c.work, f.Request, at)
	case wire.InboundAck:
		s.acknowledge(c.socket, f.Buffer)
	case wire.GoingIdle:
		s.goingIdle(c.socket)
	case wire.Interrupt:
		s.h.Interrupt(c.socket, s, f.Session, f.Reason)
	default:
		s.o.Count(CountUnknownFrame)
	}
}

func (s *Session) acknowledge(ctx context.Context, buffer string) {
	id, err := relay.ParseBufferID(buffer)
	if err != nil {
		s.o.Count(CountBadAck)
		return
	}
	if err := s.h.Ack(ctx, s, id); err != nil && ctx.Err() == nil {
		s.endBy(err)
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
