package through

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// stall is how long a caller may neither send nor read. The leader bounds the total time of a request, but while a
// read from or a write to the caller blocks, this node does not notice that the leader has ended the request.
const stall = time.Minute

// body is a caller's request body.
type body struct {
	io.ReadCloser
	conn  *http.ResponseController
	over  atomic.Bool // it was closed: nobody reads the rest through it
	whole atomic.Bool // there is no more to read
}

func (b *body) Read(p []byte) (int, error) {
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	_ = b.conn.SetReadDeadline(time.Now().Add(stall))
	n, err := b.ReadCloser.Read(p)
	if err != nil { // from now on, reading only shows whether the caller hangs up
		b.whole.Store(true)
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close leaves the rest to the server of the connection.
func (b *body) Close() error {
	b.over.Store(true)
	return nil
}

// answer is the response to a caller.
type answer struct {
	http.ResponseWriter
	conn *http.ResponseController
}

func (a answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a answer) Write(p []byte) (int, error) {
	_ = a.conn.SetWriteDeadline(time.Now().Add(stall))
	return a.ResponseWriter.Write(p)
}

// Hijack returns the caller's connection for a socket. The connection cannot close one direction alone: when one end
// closes it, the reverse proxy then closes the other end, too.
func (a answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.Header().Del("Connection") // the connection goes on, as a socket
	conn, rw, err := a.conn.Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered()) // frames that came on the heels of the request
	if err != nil {
		return nil, nil, err
	}
	s := &socket{conn, io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn)}
	return s, bufio.NewReadWriter(bufio.NewReader(s), bufio.NewWriter(s)), nil
}

// socket is a hijacked connection. It reads first what had arrived before the hijack, and bounds each write by stall.
type socket struct {
	net.Conn
	from io.Reader
}

func (s *socket) Read(p []byte) (int, error) { return s.from.Read(p) }

func (s *socket) Write(p []byte) (int, error) {
	_ = s.SetWriteDeadline(time.Now().Add(stall))
	return s.Conn.Write(p)
}
