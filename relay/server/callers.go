package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What strangers may hold open. A connection is a stranger's until a gateway's credential has been
// verified on it, and costs tens of KB from the moment it is accepted.
const (
	// maxCallers connections at a time are no sessions; the next one waits in the kernel's queue.
	maxCallers = 64
	// acceptRate connections a second are accepted, acceptBurst after a quiet time: as many gateways
	// may dial at once, and who does nothing but dial leaves the processor to the others.
	acceptRate  = 1000
	acceptBurst = 1000
	// When another one waits, the oldest goes that has said nothing complete for as long as
	// waitTime, or is being answered for as long as answerTime. A gateway's upgrade is a matter of
	// a round trip or three.
	waitTime   = time.Second
	answerTime = 5 * time.Second
)

// callers is a listener that bounds the connections that are no sessions. It gives the server its
// hooks state and tag, and wraps its handler.
type callers struct {
	net.Listener
	evicted func()        // called for each connection that had to go
	rate    *rate.Limiter // of Accept

	closing sync.Once
	closed  chan struct{}
	left    chan struct{} // holds one value when a caller has left; never blocks the one who left

	mu    sync.Mutex // guards the fields below
	by    map[net.Conn]*list.Element
	order *list.List // of *caller, the one whose state changed longest ago first
}

// caller is one connection.
type caller struct {
	conn      net.Conn
	answering bool      // a handler runs
	since     time.Time // of that, or of the opposite
}

func newCallers(l net.Listener, evicted func()) *callers {
	return &callers{
		Listener: l, evicted: evicted, rate: rate.NewLimiter(acceptRate, acceptBurst),
		closed: make(chan struct{}), left: make(chan struct{}, 1),
		by: make(map[net.Conn]*list.Element), order: list.New(),
	}
}

// Accept waits for its turn and for room, and makes some if it can, before it accepts.
func (c *callers) Accept() (net.Conn, error) {
	turn := time.Now().Add(c.rate.Reserve().Delay())
	for {
		goes, pause := c.room(time.Now())
		if goes != nil {
			c.evicted()
			_ = goes.Close()
			continue
		}
		if pause = max(pause, time.Until(turn)); pause <= 0 {
			break
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-c.left:
		case <-c.closed:
		}
		t.Stop()
		select {
		case <-c.closed:
			return nil, net.ErrClosed
		default:
		}
	}
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[conn] = c.order.PushBack(&caller{conn: conn, since: time.Now()})
	return conn, nil
}

// room is 0 when there is room for another; else who goes, or how long to wait before asking again.
func (c *callers) room(now time.Time) (goes net.Conn, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.by) < maxCallers {
		return nil, 0
	}
	pause = waitTime
	for e := c.order.Front(); e != nil; e = e.Next() {
		x := e.Value.(*caller)
		patience := waitTime
		if x.answering {
			patience = answerTime
		}
		left := patience - now.Sub(x.since)
		if left <= 0 {
			c.order.Remove(e)
			delete(c.by, x.conn)
			return x.conn, 0
		}
		pause = min(pause, left)
	}
	return nil, pause
}

func (c *callers) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// state is the server's ConnState: a connection that ends, or becomes a session, is no caller.
func (c *callers) state(conn net.Conn, s http.ConnState) {
	if s != http.StateClosed && s != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.by[conn]; ok {
		c.order.Remove(e)
		delete(c.by, conn)
		select {
		case c.left <- struct{}{}:
		default:
		}
	}
}

type connKey struct{}

// tag is the server's ConnContext: it tells handler which connection a request came by.
func (c *callers) tag(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// handler is h, whose callers are known to be answered while it runs.
func (c *callers) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		c.mark(conn, true)
		defer c.mark(conn, false)
		h.ServeHTTP(w, r)
	})
}

func (c *callers) mark(conn net.Conn, answering bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.by[conn]; ok {
		x := e.Value.(*caller)
		x.answering, x.since = answering, time.Now()
		c.order.MoveToBack(e)
	}
}
