package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine is how many bytes a line from the client may have.
const maxLine = 1 << 20

// errTooLong is returned in place of a line that is longer than maxLine.
var errTooLong = errors.New("a line has at most 1 MiB")

// codeInvalidRequest is JSON-RPC's code for JSON that is no message.
const codeInvalidRequest = -32600

// stdio is the way to the client: a message in each line, both ways. Beside the library's messages it carries
// notifications of our own, and it continues to read behind a line that is not a message. It is the transport and its
// only connection.
type stdio struct {
	in  io.Reader
	out io.Writer
	// own is called with each notification, before the library sees it; true: it is not the library's.
	own func(method string, params json.RawMessage) bool

	lines  chan []byte   // nil stands for a line that is too long
	ended  chan struct{} // closed when the client has nothing more to say
	ready  chan struct{} // closed at the client's first request other than initialize, server/discover and ping
	begun  sync.Once
	closed chan struct{}
	close  sync.Once

	writing sync.Mutex

	answered chan struct{} // gets a value when a call was answered

	mu    sync.Mutex          // guards calls
	calls map[jsonrpc.ID]bool // those that run; true: the client wants no answer any more
}

func newStdio(in io.Reader, out io.Writer) *stdio {
	return &stdio{
		in: in, out: out, own: func(string, json.RawMessage) bool { return false },
		lines: make(chan []byte), ended: make(chan struct{}), ready: make(chan struct{}), closed: make(chan struct{}), answered: make(chan struct{}, 1), calls: make(map[jsonrpc.ID]bool),
	}
}

// Connect begins to read. The reader may stay blocked after the connection is closed: nothing interrupts a read of
// standard input.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) {
	go s.read()
	return s, nil
}

func (s *stdio) SessionID() string { return "" }

// read passes on the lines until the input ends.
func (s *stdio) read() {
	defer close(s.ended)
	r := bufio.NewReaderSize(s.in, 64<<10)
	for {
		text, err := nextLine(r)
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		select {
		case s.lines <- text:
		case <-s.closed:
			return
		}
	}
}

// nextLine returns the next line, without its end; errTooLong if it is longer than maxLine. Text behind the last line
// end is a line, too.
func nextLine(r *bufio.Reader) (text []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine+len("\r\n"); !long {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(text) == 0 && !long):
			return nil, err
		}
		if text = bytes.TrimRight(text, "\r\n"); long || len(text) > maxLine {
			return nil, errTooLong
		}
		return text, nil
	}
}

// Read returns the next message that is the library's.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var text []byte
		select {
		case text = <-s.lines:
		case <-s.ended:
			return nil, s.last(ctx)
		case <-s.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m, code, err := decodeMessage(text)
		if err != nil {
			if err := s.refuse(code, err); err != nil {
				return nil, err
			}
			continue
		}
		r, ok := m.(*jsonrpc.Request)
		if ok && r.Method != "initialize" && r.Method != "server/discover" && r.Method != "ping" {
			s.begun.Do(func() { close(s.ready) })
		}
		switch {
		case ok && r.IsCall():
			s.mu.Lock()
			s.calls[r.ID] = false
			s.mu.Unlock()
		case ok && r.Method == cancelledMethod:
			s.cancelled(r.Params)
		case ok && s.own(r.Method, r.Params):
			continue
		}
		return m, nil
	}
}

// last waits until the client's requests are answered, and then returns io.EOF. It must not return io.EOF before,
// because the library sends no answers after that.
func (s *stdio) last(ctx context.Context) error {
	for {
		s.mu.Lock()
		n := len(s.calls)
		s.mu.Unlock()
		if n == 0 {
			return io.EOF
		}
		select {
		case <-s.answered:
		case <-s.closed:
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cancelledMethod is the notification that the client no longer waits for the answer to a call. The client then gets no
// answer, although the library makes one.
const cancelledMethod = "notifications/cancelled"

// cancelled marks the call that the client has cancelled, if it still runs.
func (s *stdio) cancelled(params json.RawMessage) {
	var p struct {
		RequestID any `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p) // without an id it cancels nothing
	id, err := jsonrpc.MakeID(p.RequestID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, runs := s.calls[id]; runs && err == nil {
		s.calls[id] = true
	}
}

// unwanted reports whether a call was cancelled.
func (s *stdio) unwanted(id jsonrpc.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// over notes that a call was answered.
func (s *stdio) over(id jsonrpc.ID) {
	s.mu.Lock()
	delete(s.calls, id)
	s.mu.Unlock()
	select {
	case s.answered <- struct{}{}:
	default:
	}
}

// decodeMessage reads a line; nil stands for a line that was too long. It does not accept batches, which only one
// version of the protocol had.
func decodeMessage(text []byte) (m jsonrpc.Message, code int, err error) {
	switch {
	case text == nil:
		return nil, codeInvalidRequest, errTooLong
	case !json.Valid(text):
		return nil, jsonrpc.CodeParseError, errors.New("this line is not JSON")
	}
	if m, err = jsonrpc.DecodeMessage(text); err != nil {
		return nil, codeInvalidRequest, errors.New("this line is no message of JSON-RPC 2.0")
	}
	return m, 0, nil
}

// refuse answers a line that is no message, and so has no id.
func (s *stdio) refuse(code int, why error) error {
	return s.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, code, why.Error()))
}

// Write sends a message, unless it answers a call that was cancelled.
func (s *stdio) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		defer s.over(r.ID)
		if s.unwanted(r.ID) {
			return nil
		}
	}
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("a message to the client: %w", err)
	}
	return s.write(raw)
}

// notify sends a notification that the library does not know.
func (s *stdio) notify(ctx context.Context, method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return s.Write(ctx, &jsonrpc.Request{Method: method, Params: raw})
}

func (s *stdio) write(raw []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(raw, '\n'))
	return err
}

// Close ends reading.
func (s *stdio) Close() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}
