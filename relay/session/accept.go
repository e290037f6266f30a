package session

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// Conn is a gateway's connection: the WebSocket, and below it the meter that counts incoming bytes.
type Conn struct {
	*websocket.Conn
	meter *meter
}

// Accept upgrades a request, without compression. On an error it has answered the request. The connection does not
// need the request's goroutine, so the http.Handler may return.
func Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	m := newMeter()
	conn, err := websocket.Accept(hijacker{w, m}, r, &websocket.AcceptOptions{
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(context.Context, []byte) bool { m.control(); return true },
		OnPongReceived:  func(context.Context, []byte) { m.control() },
	})
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	return &Conn{Conn: conn, meter: m}, nil
}

// Close tells the gateway why and closes the connection, within 10 s. It reads at most parting bytes of what still
// comes in.
func (c *Conn) Close(code websocket.StatusCode, reason string) error {
	c.meter.giveUp()
	return c.Conn.Close(code, reason)
}

// hijacker is a response whose connection is hijacked with a meter around it.
type hijacker struct {
	http.ResponseWriter
	meter *meter
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered()) // frames that arrived together with the request
	if err != nil {
		return nil, nil, err
	}
	m := h.meter
	m.Conn = conn
	if len(early) > 0 {
		m.arrived(len(early), bytes.Clone(early), nil)
	}
	return m, bufio.NewReadWriter(bufio.NewReaderSize(m, tinyBuffer), bufio.NewWriterSize(m, tinyBuffer)), nil
}
