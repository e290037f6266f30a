package limit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// What strangers may hold open. A connection is a stranger's until a credential has been verified
// on it, and costs tens of KB from the moment it is served.
const (
	// MaxCallers connections at a time are strangers' and served.
	MaxCallers = 512
	// An address's connections are served one every serveEvery, serveBurst at once after a quiet
	// time. So even the greediest address keeps each for 0.4 s, until MaxCallers newer ones have
	// come: a gateway behind such an address needs a round trip or two for its upgrade.
	serveEvery = time.Millisecond
	serveBurst = 128
	// Whose turn is more than maxWait away goes at once, and so does who would wait as one more than
	// maxWaiting. One that waits costs a few KB.
	maxWait    = 2 * time.Second
	maxWaiting = 2048
)

// Callers is a listener that bounds the strangers' connections, and lets no address stand in
// another's way. It takes connections as fast as they come, serves those of one address at a
// bounded rate, and when there is one too many, the oldest goes of the address that has the most.
//
// Attach tells it about its connections; a request's handler tells it with Verified who is no
// stranger: those never have to go. Its methods may be called from any goroutine.
type Callers struct {
	net.Listener
	evicted func()         // called for each connection that had to go
	taking  sync.WaitGroup // what takes connections, and each that waits for its turn

	closing sync.Once
	closed  chan struct{}
	next    chan taken // to Accept; who sends waits for it, or for the end

	mu      sync.Mutex // guards the fields below
	due     table[netip.Prefix, time.Time]
	waiting int
	dials   uint64 // connections served so far
	by      map[net.Conn]*caller
	held    map[netip.Prefix]int // how many of by each address has; never 0
}

// taken is what the listener under Callers gave.
type taken struct {
	conn net.Conn
	err  error
}

// caller is a stranger's connection.
type caller struct {
	conn     net.Conn
	from     netip.Prefix
	nth      uint64 // an older one's is lower
	hijacked bool   // its handler says when it ends
}

// NewCallers makes a listener of l, which takes connections until it is closed. evicted is called
// for each connection that had to go.
func NewCallers(l net.Listener, evicted func()) *Callers {
	c := &Callers{
		Listener: l, evicted: evicted, closed: make(chan struct{}), next: make(chan taken),
		due: newTable[netip.Prefix, time.Time](), by: make(map[net.Conn]*caller), held: make(map[netip.Prefix]int),
	}
	c.taking.Go(c.take)
	return c
}

// take takes connections, so that nobody's wait in the kernel's one queue, until c is closed.
func (c *Callers) take() {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			if !c.hand(taken{err: err}) {
				return
			}
			continue
		}
		switch wait, ok := c.turn(conn); {
		case !ok:
			c.evicted()
			drop(conn)
		case wait > 0:
			c.taking.Go(func() { c.wait(conn, wait) })
		case !c.hand(taken{conn: conn}):
			drop(conn)
			return
		}
	}
}

// turn is how long conn has to wait; it may not if ok is false. One that waits is counted.
func (c *Callers) turn(conn net.Conn) (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	due := c.due.at(peer(conn))
	turn := *due
	if earliest := now.Add(-serveBurst * serveEvery); turn.Before(earliest) {
		turn = earliest
	}
	turn = turn.Add(serveEvery)
	wait = turn.Sub(now)
	if wait > maxWait || wait > 0 && c.waiting >= maxWaiting {
		return 0, false
	}
	if wait > 0 {
		c.waiting++
	}
	*due = turn
	return wait, true
}

// wait hands conn over when its turn has come.
func (c *Callers) wait(conn net.Conn, turn time.Duration) {
	t := time.NewTimer(turn)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.closed:
	}
	if !c.hand(taken{conn: conn}) {
		drop(conn)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// hand gives x to Accept, and reports whether it was taken before the end.
func (c *Callers) hand(x taken) bool {
	select {
	case <-c.closed:
		return false
	default:
	}
	select {
	case c.next <- x:
		return true
	case <-c.closed:
		return false
	}
}

// peer is the address that conn comes from.
func peer(conn net.Conn) netip.Prefix {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return Neighbourhood(a.AddrPort().Addr())
	}
	return netip.Prefix{}
}

// drop closes conn without a word: TLS would say goodbye first, and wait for one who reads nothing.
func drop(conn net.Conn) {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = over.NetConn()
	}
	_ = conn.Close()
}

// Accept waits for a connection whose turn it is, and makes room for it.
func (c *Callers) Accept() (net.Conn, error) {
	select {
	case x := <-c.next:
		if x.err != nil {
			return nil, x.err
		}
		if goes := c.add(x.conn); goes != nil {
			c.evicted()
			drop(goes)
		}
		return x.conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener, and the connections that nobody has accepted.
func (c *Callers) Close() error {
	c.closing.Do(func() { close(c.closed) })
	err := c.Listener.Close()
	c.taking.Wait()
	return err
}

// add notes a connection, and returns the one that has to go for it, if any.
func (c *Callers) add(conn net.Conn) (goes net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &caller{conn: conn, from: peer(conn), nth: c.dials}
	c.dials++
	c.by[conn] = x
	c.held[x.from]++
	if len(c.by) <= MaxCallers {
		return nil
	}
	for _, y := range c.by {
		if more := c.held[y.from] - c.held[x.from]; more > 0 || more == 0 && y.nth < x.nth {
			x = y
		}
	}
	c.forget(x)
	return x.conn
}

// forget takes x out. c.mu must be held.
func (c *Callers) forget(x *caller) {
	delete(c.by, x.conn)
	c.release(x.from)
}

// release counts one connection less. c.mu must be held.
func (c *Callers) release(from netip.Prefix) {
	if c.held[from]--; c.held[from] == 0 {
		delete(c.held, from)
	}
}

// Attach makes srv, which is to serve c, tell c about its connections. from is who sent a request,
// which is known only now when the peer is a proxy; nil means the peer.
func (c *Callers) Attach(srv *http.Server, from func(*http.Request) netip.Addr) {
	srv.ConnState = func(conn net.Conn, s http.ConnState) {
		switch s {
		case http.StateClosed:
			c.left(conn)
		case http.StateHijacked:
			c.change(conn, func(x *caller) { x.hijacked = true })
		}
	}
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, badgeKey{}, badge{c, conn})
	}
	h := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, ok := r.Context().Value(badgeKey{}).(badge); ok {
			if from != nil {
				c.move(b.conn, Neighbourhood(from(r)))
			}
			defer c.change(b.conn, func(x *caller) {
				if x.hijacked {
					c.forget(x)
				}
			})
		}
		h.ServeHTTP(w, r)
	})
}

type badgeKey struct{}

// badge is in the context of a request and tells which connection it came by.
type badge struct {
	callers *Callers
	conn    net.Conn
}

// Verified says that a credential has been verified for the request whose context this is, or is
// derived from: its connection is no stranger's from now on, and stays.
func Verified(ctx context.Context) {
	if b, ok := ctx.Value(badgeKey{}).(badge); ok {
		b.callers.left(b.conn)
	}
}

// left notes that a connection ended, or is a stranger's no more.
func (c *Callers) left(conn net.Conn) { c.change(conn, c.forget) }

// move counts a connection as that of another address.
func (c *Callers) move(conn net.Conn, to netip.Prefix) {
	c.change(conn, func(x *caller) {
		c.held[to]++
		c.release(x.from)
		x.from = to
	})
}

// change calls do, with c.mu held, for a connection that is a stranger's.
func (c *Callers) change(conn net.Conn, do func(*caller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.by[conn]; ok {
		do(x)
	}
}
