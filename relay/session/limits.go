package session

import (
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

// What a gateway may send. A credential does not make its holder well-behaved: a gateway gone mad
// must not cost its neighbours anything, and a healthy one must never notice that there are
// limits. What is over a limit ends the session with 1008 and a reason; gateways of every age dial
// again after a pause then, and the owner of the sessions sees to it that this gains them nothing.
// An acknowledgement of an entry in flight counts against none of them: how many of those come is
// ours to say.
const (
	// Bytes off the socket. A healthy gateway sends hellos of a few hundred KB after dialling,
	// and then answers: a streamed edit of 4 KB once a second in sixteen chats is 64 KiB/s. The
	// burst is sixteen of the largest frames.
	byteBurst = 16 << 20
	byteRate  = 256 << 10
	// Bytes that are no frame's: pings, pongs, headers of fragments. Gateways ping every 20 to
	// 30 s (under 1 byte/s) and do not fragment; a proxy that cuts messages into 4 KiB costs 8
	// bytes for each. Headers of whole messages are not counted. The burst is 10,000 pings.
	framingBurst = 64 << 10
	framingRate  = 512

	// Frames and messages, whichever are more. Sixteen chats with a streamed edit and a typing
	// each second are 32/s; a gateway's burst of 256 requests must fit many times over.
	frameBurst = 2048
	frameRate  = 200
	// Frames that are none, and acknowledgements of what is not in flight. After a lost
	// connection the ones under way may come, a window's worth; otherwise nothing does.
	faultBurst = 256
	faultRate  = 1
	// Hellos: one per identity after dialling, and each may cost a write.
	helloBurst = 64
	helloRate  = 0.1
	// going_idle: one per sleep, and each may cost a write.
	idleBurst = 16
	idleRate  = 0.1
	// Interrupts go to other sessions of the tenant, whose outboxes they must not fill. No
	// gateway sends any so far.
	interruptBurst = 64
	interruptRate  = 1

	// frameTime is how long a frame may take from its first byte to its last. The largest one
	// needs 140 kbit/s for that.
	frameTime = 60 * time.Second
)

// limits are a session's budgets for what it reads, frame by frame. Bytes are the meter's.
// Touched by the reader only.
type limits struct {
	frames, faults, hellos, idles, interrupts budget
}

func newLimits() limits {
	return limits{
		frames:     budget{burst: frameBurst, rate: frameRate},
		faults:     budget{burst: faultBurst, rate: faultRate},
		hellos:     budget{burst: helloBurst, rate: helloRate},
		idles:      budget{burst: idleBurst, rate: idleRate},
		interrupts: budget{burst: interruptBurst, rate: interruptRate},
	}
}

// spend takes one from b, and ends the session with reason, counting it as c, when that was
// one too many. It reports whether the session goes on.
func (s *Session) spend(b *budget, n int, reason string, c count.Counter) bool {
	if b.use(float64(n), time.Now()) {
		return true
	}
	s.overLimit(reason, c)
	return false
}

func (s *Session) overLimit(reason string, c count.Counter) {
	if s.endWith(&Closed{Code: websocket.StatusPolicyViolation, Reason: reason}) {
		s.o.Count(c)
		s.conn.meter.giveUp()
		if s.o.OverLimit != nil {
			s.o.OverLimit()
		}
	}
}

// fault charges the gateway with a frame that is none, or an acknowledgement of nothing.
func (s *Session) fault(c count.Counter) {
	s.o.Count(c)
	s.spend(&s.limits.faults, 1, "too many bad frames", count.SessionManyFaults)
}
