package session

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// Why a meter does not read.
var (
	errParting = errors.New("the session is over")
	// errIdle: nothing has come behind a ping or a pong. The library would wait for more on a deep stack.
	errIdle = errors.New("nothing to read")
)

const (
	// tinyBuffer is the least that bufio allows. The library must have buffers; these stay empty.
	tinyBuffer = 16
	// sharedBuffer holds a usual frame.
	sharedBuffer = 4 << 10
	// maxHeader is the largest header of a frame, by RFC 6455.
	maxHeader = 14
	// parting is how many bytes are still read once the budget is used up: closing a socket with unread data resets it,
	// and the gateway would not read the reason.
	parting = 64 << 10
)

// buffers hold the bytes in transit, for all sessions: an idle session has no buffer.
var buffers = sync.Pool{New: func() any { return new([sharedBuffer]byte) }}

// meter stands below the WebSocket library, which reads any number of fragments and control frames for one call. It
// counts the incoming bytes, and stops reading when they are too many. It also buffers in the library's place, but only
// while there is something to buffer.
type meter struct {
	net.Conn // set by Hijack, before anything is read or written

	reading chan struct{} // full while somebody reads from Conn: the session, or the library in its stead
	first   [1]byte       // used by the goroutine that reads

	mu    sync.Mutex          // guards the fields below
	came  []byte              // read from Conn, and not yet by the library
	in    *[sharedBuffer]byte // from the pool, if it contains came; otherwise nil
	pause bool                // a ping or a pong was read, and nothing came behind it
	used  float64             // of the budget's burst, at the time at
	at    time.Time           // of the last use
	straw *excess             // the limit that was exceeded when the budget was overdrawn; nil: it is not
	over  error               // why no more is read, except for left bytes; nil: everything is read
	left  int                 // bytes that are still read once over is set

	// Used only by the library's writer, of which there is one at a time.
	head  [tinyBuffer]byte // the beginning of a frame, which leaves with the rest
	heads int              // how long that is
}

func newMeter() *meter {
	return &meter{reading: make(chan struct{}, 1), left: parting}
}

// await returns once there is something to read, or with the reason why there will be nothing. It waits without a
// buffer, on a small stack.
func (m *meter) await() error {
	m.reading <- struct{}{}
	came, err := m.look()
	if !came && err == nil {
		var n int
		if n, err = m.Conn.Read(m.first[:]); n > 0 {
			m.arrived(n, m.first[:], nil)
			err = nil
		}
	}
	<-m.reading // not deferred: that would cost every idle session's stack
	return err
}

// Read reads unless the budget is used up. It checks that first, because only then everything from the last read is
// accounted for. Data that the library would put into its own buffer it gets byte by byte, so that nothing stays there.
func (m *meter) Read(p []byte) (int, error) {
	if len(p) <= tinyBuffer {
		p = p[:1]
	}
	m.reading <- struct{}{}
	defer func() { <-m.reading }()
	for {
		if n, err := m.take(p); n > 0 || err != nil {
			return n, err
		}
		if len(p) > sharedBuffer {
			n, err := m.Conn.Read(p)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.countLocked(n)
			return n, err
		}
		b := buffers.Get().(*[sharedBuffer]byte)
		n, err := m.Conn.Read(b[:])
		if n == 0 {
			buffers.Put(b)
			return 0, err
		}
		m.arrived(n, b[:], b)
	}
}

// look reports whether earlier bytes are still to be read. The error is why no more are.
func (m *meter) look() (came bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = false
	return m.lookLocked()
}

// lookLocked is look, but does not end a pause. m.mu must be held.
func (m *meter) lookLocked() (came bool, err error) {
	switch {
	case len(m.came) > 0:
		return true, nil
	case m.over != nil && m.left > 0:
		return false, nil
	case m.over == nil:
		e := m.useLocked(0, tooManyBytes)
		if e == nil {
			return false, nil
		}
		m.over = e
	}
	return false, m.over
}

// take copies into p what came earlier. The error is errIdle, or why no more is read.
func (m *meter) take(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	paused := m.pause && len(m.came) == 0 && m.over == nil
	m.pause = false
	if paused {
		return 0, errIdle
	}
	came, err := m.lookLocked()
	if !came {
		return 0, err
	}
	n := copy(p, m.came)
	if m.came = m.came[n:]; len(m.came) == 0 {
		m.came = nil
		if m.in != nil {
			buffers.Put(m.in)
			m.in = nil
		}
	}
	return n, nil
}

// arrived notes that n bytes were read into b, which is in if it came from the pool.
func (m *meter) arrived(n int, b []byte, in *[sharedBuffer]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.came, m.in = b[:n], in
	m.countLocked(n)
}

// countLocked notes n bytes read. m.mu must be held.
func (m *meter) countLocked(n int) {
	if m.over != nil {
		m.left -= n
		return
	}
	m.useLocked(n, tooManyBytes)
}

// spend takes cost from the budget for e. It returns the excess that first overdrew the budget; nil if there is none,
// or the session is over.
func (m *meter) spend(cost int, e *excess) *excess {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return nil
	}
	return m.useLocked(cost, e)
}

// useLocked is spend without the check that the session is not over. (rate.Limiter would not do: one cannot give back
// to it what did not count after all; see excuse.) m.mu must be held.
func (m *meter) useLocked(cost int, e *excess) *excess {
	now := time.Now()
	m.used = max(0, m.used-budgetRate*now.Sub(m.at).Seconds()) + float64(cost)
	m.at = now
	if m.used <= budgetBurst {
		m.straw = nil
	} else if m.straw == nil {
		m.straw = e
	}
	return m.straw
}

// excuse gives back to the budget what a message with one line of n bytes has cost.
func (m *meter) excuse(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = max(0, m.used-float64(n+maxHeader+frameCost))
}

// control charges for a ping or a pong that the library has read.
func (m *meter) control() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pause = len(m.came) == 0
	m.useLocked(controlCost, tooManyFrames)
}

// giveUp stops reading, after at most parting more bytes.
func (m *meter) giveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over == nil {
		m.over = errParting
	}
}

// Write writes p. The library's buffer is smaller than a frame, so a frame comes in two parts; they
// leave together.
func (m *meter) Write(p []byte) (int, error) {
	if m.heads == 0 {
		if frameSize(p) <= len(p) {
			return m.Conn.Write(p)
		}
		m.heads = copy(m.head[:], p)
		return len(p), nil
	}
	head := m.head[:m.heads]
	m.heads = 0
	if len(head)+len(p) > sharedBuffer {
		if _, err := m.Conn.Write(head); err != nil {
			return 0, err
		}
		return m.Conn.Write(p)
	}
	b := buffers.Get().(*[sharedBuffer]byte)
	defer buffers.Put(b)
	if _, err := m.Conn.Write(append(append(b[:0], head...), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// frameSize returns the length of the frame whose header p begins with. A server does not mask frames.
func frameSize(p []byte) int {
	if len(p) < 2 {
		return 0
	}
	switch n := int(p[1]); {
	case n == 126 && len(p) >= 4:
		return 4 + int(binary.BigEndian.Uint16(p[2:]))
	case n == 127 && len(p) >= 10:
		return 10 + int(binary.BigEndian.Uint64(p[2:]))
	default:
		return 2 + n
	}
}
