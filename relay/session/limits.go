package session

import (
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

// What a gateway may send: a gateway that runs wild must not cost its neighbours anything, and a healthy one must never
// notice that there are limits. There is one budget, in bytes: everything that comes over the socket costs its size,
// and a frame costs more according to the work that it causes. A gateway that overdraws it is closed with 1008 and a
// reason, and dials again; the owner of the sessions makes sure that it gains nothing by this. An acknowledgement of an
// entry in flight is free, because the connector decides how many of those can come.
const (
	// A streamed edit of 4 KB and a typing each second in sixteen chats cost 128 KiB/s. The burst is sixteen of the
	// largest frames, or ten times what 256 requests at once cost.
	budgetBurst = 16 << 20
	budgetRate  = 256 << 10

	// A line, or a message without one: 8,192 at once, 128 a second.
	frameCost = 2 << 10
	// A ping or a pong: 1,024 at once, 16 a second. Gateways ping every 20 to 30 s.
	controlCost = 16 << 10
	// The cost of a line that is not a frame, or of an acknowledgement for an entry that is not in flight. A healthy
	// gateway sends a few of the latter after a lost connection.
	faultCost = 64 << 10
	// The cost of a hello: one per identity after dialling, each of which may cause a write.
	helloCost = 256 << 10
	// The cost of an interrupt: these go to other sessions of the tenant, whose outboxes they must not fill.
	interruptCost = 256 << 10
	// The cost of a going_idle: one per sleep, which may cause a write.
	idleCost = 1 << 20

	// frameTime is how long a frame may take from its first byte to its last: 140 kbit/s for the largest one.
	frameTime = 60 * time.Second
)

// excess is a limit that was exceeded: the reason for the gateway, and the counter.
type excess struct {
	reason  string
	counter count.Counter
}

func (e *excess) Error() string { return e.reason }

var (
	tooManyBytes      = &excess{"too much data", count.SessionManyBytes}
	tooManyFrames     = &excess{"too many frames", count.SessionManyFrames}
	tooManyFaults     = &excess{"too many bad frames", count.SessionManyFaults}
	tooManyHellos     = &excess{"too many hellos", count.SessionManyHellos}
	tooManyInterrupts = &excess{"too many interrupts", count.SessionManyInterrupts}
	tooManyIdles      = &excess{"too many going_idle", count.SessionManyIdles}
	tooLong           = &excess{"frame not finished in time", count.SessionUnfinished}
)

// spend takes cost from the gateway's budget, and ends the session if that was too much. The reason is e, unless the
// budget was overdrawn before. It reports whether the session continues.
func (s *Session) spend(cost int, e *excess) bool {
	if e = s.conn.meter.spend(cost, e); e != nil {
		s.overLimit(e)
	}
	return e == nil
}

// overLimit ends the session because the gateway exceeded the limit e.
func (s *Session) overLimit(e *excess) {
	if s.endWith(&Closed{Code: websocket.StatusPolicyViolation, Reason: e.reason}) {
		s.o.Count(e.counter)
		s.conn.meter.giveUp()
		if s.o.OverLimit != nil {
			s.o.OverLimit()
		}
	}
}

// fault charges the gateway for a line that is not a frame, or for an acknowledgement that does not count.
func (s *Session) fault(count count.Counter) {
	s.o.Count(count)
	s.spend(faultCost, tooManyFaults)
}
