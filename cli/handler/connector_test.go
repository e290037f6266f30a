package handler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// patience bounds what takes no time.
const patience = 5 * time.Minute

// window is how many deliveries are given that are not acknowledged.
const window = 4

// connector is as much of one as a runner needs: what was not acknowledged comes again with each connection.
type connector struct {
	url string

	mu      sync.Mutex // guards the fields below
	waiting []wire.Inbound
	pushed  int // of those that wait, in the session that is the newest
	session *session
	told    []relay.Send
	from    []relay.PlatformID
	acked   []string
	hellos  []wire.Hello
	idle    bool
	status  string                                                      // what the runner told of itself last
	answer  func(n int, a relay.Send) (r *relay.ActionError, lost bool) // to the send of that number, from 1; nil: all work
	changed chan struct{}
}

// session is one connection.
type session struct {
	conn *websocket.Conn
	out  sync.Mutex
}

func newConnector(t *testing.T) *connector {
	c := &connector{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow() //nolint:errcheck // it is over
		conn.SetReadLimit(wire.MaxFrame)
		c.serve(t.Context(), &session{conn: conn})
	}))
	t.Cleanup(server.Close)
	c.url = strings.Replace(server.URL, "http", "ws", 1) + "/relay"
	return c
}

func (s *session) write(ctx context.Context, f wire.Frame) {
	s.out.Lock()
	defer s.out.Unlock()
	if line, err := wire.Encode(f); err == nil {
		_ = s.conn.Write(ctx, websocket.MessageText, line) // the runner may be dead
	}
}

func (c *connector) serve(ctx context.Context, s *session) {
	var split wire.Splitter
	for {
		_, message, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		lines, err := split.Feed(message)
		if err != nil {
			return
		}
		for _, line := range lines {
			f, err := wire.DecodeFromGateway(line)
			if err != nil || !c.take(ctx, s, f) {
				return
			}
		}
	}
}

// take does what a frame asks for; false: the connection is to be lost.
func (c *connector) take(ctx context.Context, s *session, f wire.Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeLocked()
	switch f := f.(type) {
	case wire.Hello:
		c.hellos = append(c.hellos, f)
		c.session, c.pushed, c.idle = s, 0, false
		s.write(ctx, wire.Descriptor{Descriptor: relay.Descriptor{Platform: f.Platform}})
		c.pushLocked(ctx)
	case wire.InboundAck:
		c.acked = append(c.acked, f.Buffer)
		if n := slices.IndexFunc(c.waiting, func(in wire.Inbound) bool { return in.Buffer == f.Buffer }); n >= 0 {
			c.waiting = slices.Delete(c.waiting, n, n+1)
			c.pushed = max(0, c.pushed-1)
		}
		c.pushLocked(ctx)
	case wire.GoingIdle:
		c.idle = true
		s.write(ctx, wire.GoingIdleAck{})
	case wire.Outbound:
		send, ok := f.Action.(relay.Send)
		if !ok {
			return true
		}
		c.told, c.from = append(c.told, send), append(c.from, f.Platform)
		r := wire.OutboundResult{ID: f.ID, Result: relay.Result{MessageID: "said"}}
		if c.answer != nil {
			refusal, lost := c.answer(len(c.told), send)
			if lost {
				return false
			}
			r.Err = refusal
		}
		s.write(ctx, r)
	}
	return true
}

func (c *connector) tell(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = line
}

func (c *connector) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *connector) pushLocked(ctx context.Context) {
	for ; !c.idle && c.session != nil && c.pushed < min(window, len(c.waiting)); c.pushed++ {
		c.session.write(ctx, c.waiting[c.pushed])
	}
}

// say lays a delivery in the buffer.
func (c *connector) say(ctx context.Context, in wire.Inbound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, in)
	c.pushLocked(ctx)
}

// until waits until cond, which is called with c.mu held, is true; false: ctx ended before.
func (c *connector) until(ctx context.Context, cond func() bool) bool {
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
