package session

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// A connection lives for weeks and is mostly silent, so its buffers are as small as its usual
// frames: an acknowledgement in, a message of a page out. A larger frame costs a system call more.
const (
	readBuffer  = 1 << 10
	writeBuffer = 2 << 10
)

// Conn is a gateway's connection: the WebSocket, and below it the meter of what it takes in.
type Conn struct {
	*websocket.Conn
	meter *meter
}

// Accept upgrades a request, without compression. On an error it has answered the request. The
// connection does not need the request's goroutine: an http.Handler that returns lets go of the
// buffers and the stack that served the upgrade.
func Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	h := &hijacker{ResponseWriter: w}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	return &Conn{Conn: conn, meter: h.meter}, nil
}

// Close tells the gateway why and closes the connection, within 10 s. Of what is still coming in,
// little is read.
func (c *Conn) Close(code websocket.StatusCode, reason string) error {
	c.meter.giveUp()
	return c.Conn.Close(code, reason)
}

// hijacker hands out the connection under a response with a meter around it.
type hijacker struct {
	http.ResponseWriter
	meter *meter // set by Hijack
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered()) // frames that came on the heels of the request
	if err != nil {
		return nil, nil, err
	}
	h.meter = newMeter(conn, bytes.Clone(early))
	return h.meter, bufio.NewReadWriter(bufio.NewReaderSize(h.meter, readBuffer), bufio.NewWriterSize(h.meter, writeBuffer)), nil
}
