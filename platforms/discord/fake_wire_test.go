package discord

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"log/slog"
)

// pipe is a network without sockets, for synctest. It ends with the test's bubble.
func (f *fakeDiscord) pipe(t *testing.T) http.RoundTripper {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: f, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	f.address = "http://fake.discord"
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	rt := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dial(ctx, l) },
		IdleConnTimeout: 30 * time.Second,
	}
	t.Cleanup(func() {
		rt.CloseIdleConnections()
		f.end()
		_ = srv.Close()
		wg.Wait()
		f.sockets.Wait()
	})
	return rt
}

// dial connects to the fake, unless its network is down.
func (f *fakeDiscord) dial(ctx context.Context, l *pipeListener) (net.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: os.ErrDeadlineExceeded}
	}
	return l.dial(ctx)
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	a, b := newWire(), newWire()
	near, far := &pipeConn{in: a, out: b}, &pipeConn{in: b, out: a}
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// wire is one direction of a connection. Like a socket, and unlike net.Pipe, it takes what is
// written without waiting for the reader.
type wire struct {
	mu       sync.Mutex // guards the fields below
	buf      []byte
	closed   bool
	deadline time.Time
	changed  chan struct{} // closed and replaced on every change
}

func newWire() *wire { return &wire{changed: make(chan struct{})} }

func (w *wire) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

type pipeConn struct{ in, out *wire }

func (c *pipeConn) Read(p []byte) (int, error) {
	for {
		c.in.mu.Lock()
		changed, deadline := c.in.changed, c.in.deadline
		n := copy(p, c.in.buf)
		c.in.buf = c.in.buf[n:]
		closed := c.in.closed
		c.in.mu.Unlock()
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case closed:
			return 0, io.EOF
		}
		if deadline.IsZero() {
			<-changed
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *pipeConn) Write(p []byte) (n int, err error) {
	c.out.change(func() {
		if c.out.closed {
			err = io.ErrClosedPipe
			return
		}
		n = len(p)
		c.out.buf = append(c.out.buf, p...)
	})
	return n, err
}

func (c *pipeConn) Close() error {
	c.in.change(func() { c.in.closed = true })
	c.out.change(func() { c.out.closed = true })
	return nil
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}

func (c *pipeConn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*pipeConn) SetWriteDeadline(time.Time) error { return nil }
func (*pipeConn) LocalAddr() net.Addr              { return pipeAddr{} }
func (*pipeConn) RemoteAddr() net.Addr             { return pipeAddr{} }

// upgrade answers a websocket's upgrade by hand.
func upgrade(w http.ResponseWriter, r *http.Request) net.Conn {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	return c
}
