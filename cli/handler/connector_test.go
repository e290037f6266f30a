package handler

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
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
	pushed  int           // of those that wait, in the session that is the newest
	session *wiretest.End // the newest connection
	told    []relay.Send
	from    []relay.PlatformID
	acked   []string
	hellos  []wire.Hello
	idle    bool
	status  string                                                      // what the runner told of itself last
	answer  func(n int, a relay.Send) (r *relay.ActionError, lost bool) // to the send of that number, from 1; nil: all work
	changed chan struct{}
}

func newConnector(t *testing.T) *connector {
	c := &connector{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := wiretest.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.CloseNow() //nolint:errcheck // it is over
		ctx := t.Context()
		_ = s.Each(ctx, func(f wire.Frame) error { return c.take(ctx, s, f) })
	}))
	t.Cleanup(server.Close)
	c.url = strings.Replace(server.URL, "http", "ws", 1) + "/relay"
	return c
}

// errLost ends a connection that is to be lost.
var errLost = errors.New("the connection is to be lost")

// take does what a frame asks for. What is written is not looked after: the runner may be dead.
func (c *connector) take(ctx context.Context, s *wiretest.End, f wire.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeLocked()
	switch f := f.(type) {
	case wire.Hello:
		c.hellos = append(c.hellos, f)
		c.session, c.pushed, c.idle = s, 0, false
		_ = s.Send(ctx, wire.Descriptor{Descriptor: relay.Descriptor{Platform: f.Platform}})
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
		_ = s.Send(ctx, wire.GoingIdleAck{})
	case wire.Outbound:
		send, ok := f.Action.(relay.Send)
		if !ok {
			return nil
		}
		c.told, c.from = append(c.told, send), append(c.from, f.Platform)
		r := wire.OutboundResult{ID: f.ID, Result: relay.Result{MessageID: "said"}}
		if c.answer != nil {
			refusal, lost := c.answer(len(c.told), send)
			if lost {
				return errLost
			}
			r.Err = refusal
		}
		_ = s.Send(ctx, r)
	}
	return nil
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
		_ = c.session.Send(ctx, c.waiting[c.pushed])
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
