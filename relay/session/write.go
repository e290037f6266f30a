package session

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

// writeTime bounds the writing of one frame. A gateway may stop reading for 30 s while its socket still takes data; one
// whose socket takes nothing for that long is too slow.
const writeTime = 30 * time.Second

var errTooSlow = &Closed{Code: websocket.StatusTryAgainLater, Reason: "too slow"}

// write sends the frames in the outbox, one per message, until it is empty. ctx must not end.
func (s *Session) write(ctx context.Context) {
	for {
		frame, ok := s.out.next()
		if !ok {
			return
		}
		slow := time.AfterFunc(writeTime, s.tooSlow)
		err := s.conn.Write(ctx, websocket.MessageText, frame.line)
		slow.Stop()
		frame.leave(true)
		if err != nil {
			s.endWith(fmt.Errorf("%w: %w", ErrLost, err))
			s.out.close(false) // next ends the loop
		}
	}
}

// tooSlow ends a session whose gateway does not read. Run closes the socket, and with it the write in progress.
func (s *Session) tooSlow() {
	if s.endWith(errTooSlow) {
		s.o.Count(count.SessionSlow)
	}
}
