package platformtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Pipes is a listener whose connections are in memory: a network without sockets, for a bubble of synctest. A wait on a
// real socket would stop the bubble's clock.
type Pipes struct {
	conns  chan net.Conn // unbuffered: a dial waits for Accept, or for the end
	once   sync.Once
	closed chan struct{}
}

// NewPipes makes a listener to which nobody is connected.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial connects to the listener; the connection seems to come from ip.
func (l *Pipes) Dial(ctx context.Context, ip string) (net.Conn, error) {
	a, b := newPipe(), newPipe()
	near := &pipeConn{in: a, out: b, peer: l.Addr()}
	far := &pipeConn{in: b, out: a, peer: &net.TCPAddr{IP: net.ParseIP(ip), Port: 4000}}
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// From returns an HTTP transport to the listener whose connections seem to come from an address.
func (l *Pipes) From(ip string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx, ip) }}
}

// Accept implements net.Listener.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Pipes) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080} }

// pipe is one direction of a connection. Like a socket, and unlike net.Pipe, a write does not wait for the reader.
type pipe struct {
	mu       sync.Mutex // guards the fields below
	buf      []byte
	closed   bool
	deadline time.Time
	changed  chan struct{} // closed and replaced on every change
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// pipeConn is one end of a connection.
type pipeConn struct {
	in, out *pipe
	peer    net.Addr
}

func (c *pipeConn) Read(b []byte) (int, error) {
	for {
		c.in.mu.Lock()
		changed, deadline := c.in.changed, c.in.deadline
		n := copy(b, c.in.buf)
		c.in.buf = c.in.buf[n:]
		closed := c.in.closed
		c.in.mu.Unlock()
		switch {
		case n > 0 || len(b) == 0:
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
		select {
		case <-changed:
		case <-time.After(left):
		}
	}
}

func (c *pipeConn) Write(b []byte) (n int, err error) {
	c.out.change(func() {
		if c.out.closed {
			err = io.ErrClosedPipe
			return
		}
		n = len(b)
		c.out.buf = append(c.out.buf, b...)
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
func (c *pipeConn) LocalAddr() net.Addr            { return c.peer }
func (c *pipeConn) RemoteAddr() net.Addr           { return c.peer }
