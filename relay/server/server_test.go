package server

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// oneConn is a listener with one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestAnswersThatNobodyReadsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{Log: slog.New(slog.DiscardHandler)})
		l := make(oneConn, 1)
		d := door.Strangers(l, nil, nil, s.o.Log)
		served := make(chan error, 1)
		go func() { served <- d.Serve(s.handler(s.table(t.Context(), t.Context())), func() {}) }()
		near, far := net.Pipe()
		l <- far
		if _, err := io.WriteString(near, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(routes.AnswerTime + time.Second)
		if b, err := io.ReadAll(near); len(b) > 0 || err != nil {
			t.Errorf("a minute later: %q, %v; want the connection closed", b, err)
		}
		close(l)
		_ = d.Close()
		<-served
	})
}
