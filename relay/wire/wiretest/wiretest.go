// Package wiretest is one end of a relay socket, for tests: a gateway's, or a connector's that a gateway dials. It
// writes frames and reads them one by one. Package cli/client does what a gateway does by itself (dial again,
// acknowledge, wait for results); an end does only what its test tells it.
package wiretest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// ErrUnreadable is wrapped by the error for a message that is not a frame. Other errors say that the socket ended.
var ErrUnreadable = errors.New("what came is no frame")

// End is one end of a socket. One goroutine at a time reads, any may write.
type End struct {
	*websocket.Conn
	// Heard, if set, is called with every message before it is decoded. Set it before the first read.
	Heard func(message []byte)

	decode func(line []byte) (wire.Frame, error)
	split  wire.Splitter
	lines  [][]byte // read, and not yet decoded
}

// Dial opens a socket as a gateway does. It sends no hello.
func Dial(ctx context.Context, url string, o *websocket.DialOptions) (*End, error) {
	conn, _, err := websocket.Dial(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return Gateway(conn), nil
}

// Accept accepts a socket that a gateway opens, and returns the connector's end.
func Accept(w http.ResponseWriter, r *http.Request) (*End, error) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(wire.MaxFrame)
	return &End{Conn: conn, decode: wire.DecodeFromGateway}, nil
}

// Gateway returns the gateway's end of an open socket.
func Gateway(conn *websocket.Conn) *End {
	conn.SetReadLimit(wire.MaxFrame)
	return &End{Conn: conn, decode: wire.DecodeFromConnector}
}

// Send writes a frame.
func (e *End) Send(ctx context.Context, f wire.Frame) error {
	line, err := wire.Encode(f)
	if err != nil {
		return err
	}
	return e.Write(ctx, websocket.MessageText, line)
}

// Next returns the next frame, or the error why there is none.
func (e *End) Next(ctx context.Context) (wire.Frame, error) {
	for len(e.lines) == 0 {
		_, message, err := e.Read(ctx)
		if err != nil {
			return nil, err
		}
		if e.Heard != nil {
			e.Heard(message)
		}
		if e.lines, err = e.split.Feed(message); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	line := e.lines[0]
	e.lines = e.lines[1:]
	f, err := e.decode(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreadable, line, err)
	}
	return f, nil
}

// Each calls take for every frame, until take returns an error or the socket ends. It returns that error.
func (e *End) Each(ctx context.Context, take func(wire.Frame) error) error {
	for {
		f, err := e.Next(ctx)
		if err == nil {
			err = take(f)
		}
		if err != nil {
			return err
		}
	}
}
