package session

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Why a meter stops reading.
var (
	errManyBytes   = errors.New("too much data")
	errMuchFraming = errors.New("too many control frames or fragments")
	errParting     = errors.New("the session is over")
)

const (
	// maxHeader is the largest header of a frame, by RFC 6455.
	maxHeader = 14
	// part is how much of a message is read at a time, well below framingBurst.
	part = 16 << 10
	// parting is how many bytes are still read once a budget is used up, so that a gateway that
	// is told why can be done sending and read it: closing a socket over unread data resets it.
	parting = 64 << 10
)

// meter counts what comes in over a connection, and stops reading it when that is too much. It
// stands below the WebSocket library, which reads fragments and control frames without end on
// behalf of one call.
type meter struct {
	net.Conn

	mu      sync.Mutex // guards the fields below
	early   []byte     // read before the upgrade was answered
	bytes   budget
	framing budget // bytes that have not turned out to be of a message
	over    error  // the budget that is used up
	left    int    // still read after that
}

func newMeter(conn net.Conn, early []byte) *meter {
	return &meter{
		Conn: conn, early: early, left: parting,
		bytes:   budget{burst: byteBurst, rate: byteRate},
		framing: budget{burst: framingBurst, rate: framingRate},
	}
}

// Read reads unless a budget is used up. That is looked at before and not after: only then is
// everything that came in the last read accounted for.
func (m *meter) Read(p []byte) (int, error) {
	early, err := m.begin(p)
	if early > 0 || err != nil {
		return early, err
	}
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.countLocked(n)
	return n, err
}

// begin refuses a read, or serves it from what came early, or does neither.
func (m *meter) begin(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil && m.left <= 0 {
		return 0, m.over
	}
	now := time.Now()
	switch {
	case m.over != nil:
	case !m.bytes.use(0, now):
		m.over = errManyBytes
		return 0, m.over
	case !m.framing.use(0, now):
		m.over = errMuchFraming
		return 0, m.over
	}
	n := copy(p, m.early)
	if m.early = m.early[n:]; len(m.early) == 0 {
		m.early = nil
	}
	m.countLocked(n)
	return n, nil
}

// countLocked notes n bytes read. m.mu must be held.
func (m *meter) countLocked(n int) {
	if m.over != nil {
		m.left -= n
		return
	}
	now := time.Now()
	m.bytes.use(float64(n), now)
	m.framing.use(float64(n), now)
}

// giveUp stops reading, but for what is under way.
func (m *meter) giveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over == nil {
		m.over = errParting
	}
}

// message is r, a message's reader, as the meter knows of it.
func (m *meter) message(r io.Reader) io.Reader { return payload{m, r} }

// finished notes that a message was read to its end.
func (m *meter) finished() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.framing.giveBack(maxHeader)
}

// excuse takes n bytes of a message back.
func (m *meter) excuse(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes.giveBack(float64(n + maxHeader))
}

type payload struct {
	m *meter
	r io.Reader
}

// Read reads at most part at a time: the library returns once b is full, and until then the meter
// takes what came for framing.
func (p payload) Read(b []byte) (int, error) {
	n, err := p.r.Read(b[:min(len(b), part)])
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.m.framing.giveBack(float64(n))
	return n, err
}
