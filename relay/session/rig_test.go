package session

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// hub is a Handler made of functions, and makes Actions of them. What is not given does nothing,
// successfully.
type hub struct {
	s         *Session // that it handles
	hello     func(*Session, wire.Hello) (relay.Descriptor, error)
	pump      func(context.Context, *Session) error
	ack       func(relay.BufferID) error
	ignore    bool // acknowledgements do not count
	goingIdle func(context.Context, *Session) error
	interrupt func(relay.SessionKey, *string)
	unknown   func()
	line      func(relay.Request) relay.Chat
	may       func(relay.Request) error
	waitOpen  func(context.Context, relay.Request) error
	do        func(context.Context, relay.Request) (relay.Result, error)
}

func (h *hub) Hello(_ context.Context, f wire.Hello) error {
	d := relay.Bare(f.Platform)
	if h.hello != nil {
		var err error
		if d, err = h.hello(h.s, f); err != nil {
			return err
		}
	}
	h.s.Tell(wire.Descriptor{Descriptor: d})
	return nil
}

func (h *hub) Pump(ctx context.Context, _ func(func()), over func(error)) {
	if h.pump != nil {
		over(h.pump(ctx, h.s))
		return
	}
	context.AfterFunc(ctx, func() { over(nil) })
}

func (h *hub) Ack(_ context.Context, id relay.BufferID) (counted bool, err error) {
	if h.ack != nil {
		err = h.ack(id)
	}
	return !h.ignore, err
}

func (h *hub) GoingIdle(ctx context.Context) error {
	if h.goingIdle != nil {
		return h.goingIdle(ctx, h.s)
	}
	return nil
}

func (h *hub) Unknown(context.Context) {
	if h.unknown != nil {
		h.unknown()
	}
}

func (h *hub) Interrupt(_ context.Context, key relay.SessionKey, reason *string) {
	if h.interrupt != nil {
		h.interrupt(key, reason)
	}
}

func (h *hub) Action(_ context.Context, r relay.Request) Action { return &deed{h, r} }

// deed is an Action of a hub.
type deed struct {
	h *hub
	r relay.Request
}

func (d *deed) Line() relay.Chat {
	if d.h.line != nil {
		return d.h.line(d.r)
	}
	return relay.Chat{Bot: relay.Bot{Platform: d.r.Platform, ID: d.r.Bot}, ID: d.r.Action.Target()}
}

func (d *deed) Allow(context.Context) error {
	if d.h.may != nil {
		return d.h.may(d.r)
	}
	return nil
}

func (d *deed) Do(ctx context.Context, pick Pick) (relay.Result, error) {
	if d.h.waitOpen != nil {
		if err := d.h.waitOpen(ctx, d.r); err != nil {
			return relay.Result{}, err
		}
	}
	ctx, r, ok := pick()
	if !ok || d.h.do == nil {
		return relay.Result{}, nil
	}
	return d.h.do(ctx, r)
}

// counts is an Options.Count that can be read.
type counts struct {
	mu sync.Mutex
	n  map[count.Counter]int
}

func (c *counts) add(name count.Counter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[count.Counter]int)
	}
	c.n[name]++
}

func (c *counts) get(name count.Counter) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

// oneConn is a listener that has one connection to give.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// rig is a session and its gateway, joined by a pipe without any buffer: what the gateway does
// not read blocks the session at once.
type rig struct {
	t      *testing.T
	s      *Session
	counts *counts
	end    context.CancelCauseFunc // ends Run's context
	hurry  context.CancelFunc
	run    chan error // Run's result

	gw     *wiretest.End   // the gateway's side
	wire   net.Conn        // below it
	frames chan wire.Frame // what the gateway read, if it listens
	closed chan error      // why the gateway's reading ended

	helpers sync.WaitGroup
}

// inBubble runs f in virtual time with a session that serves h. The gateway does not read until
// the test calls listen, and has not said hello.
func inBubble(t *testing.T, h *hub, o Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			t: t, counts: &counts{}, run: make(chan error, 1),
			frames: make(chan wire.Frame, 4096), closed: make(chan error, 1),
		}
		o.Count = r.counts.add
		ctx, end := context.WithCancelCause(t.Context())
		r.end = end
		hurry, cut := context.WithCancel(t.Context())
		r.hurry = cut
		made := make(chan *Session)
		l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			conn, err := Accept(w, req)
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			peer := Peer{Gateway: "g1", Instance: "i1", Tenant: "home", Addr: netip.MustParseAddr("192.0.2.1")}
			s := New(conn, peer, h, o)
			h.s = s
			made <- s
			r.run <- s.Run(ctx, hurry)
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = srv.Serve(l) }()

		near, far := net.Pipe()
		l.conn <- near
		r.wire = far
		dialled := make(chan struct{})
		go func() {
			defer close(dialled)
			client := &http.Client{Transport: &http.Transport{
				DialContext: func(context.Context, string, string) (net.Conn, error) { return far, nil },
			}}
			var err error
			r.gw, err = wiretest.Dial(t.Context(), "ws://connector/relay", &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Errorf("dial: %v", err)
			}
		}()
		r.s = <-made
		<-dialled

		f(t, r)

		end(errors.New("test is over"))
		cut()
		_ = r.gw.CloseNow()
		_ = far.Close()
		_ = srv.Close()
		<-served
		r.helpers.Wait()
	})
}

// listen reads what the session sends, and so answers its pings, until the connection ends.
func (r *rig) listen() {
	r.helpers.Go(func() {
		err := r.gw.Each(context.WithoutCancel(r.t.Context()), func(f wire.Frame) error {
			r.frames <- f
			return nil
		})
		if errors.Is(err, wiretest.ErrUnreadable) {
			r.t.Error(err)
		}
		r.closed <- err
	})
}

// swallow reads the connection below the gateway, which therefore answers neither pings nor a
// close.
func (r *rig) swallow() {
	r.helpers.Go(func() { _, _ = io.Copy(io.Discard, r.wire) })
}

// babble writes acknowledgements until the connection is gone.
func (r *rig) babble() {
	r.helpers.Go(func() {
		message := []byte(`{"type":"inbound_ack","bufferId":"1-1"}` + "\n")
		for r.gw.Write(context.WithoutCancel(r.t.Context()), websocket.MessageText, message) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// greet says hello and takes the descriptor.
func (r *rig) greet() {
	r.t.Helper()
	r.listen()
	r.send(wire.Hello{Platform: "telegram", BotID: "42"})
	if _, ok := r.next().(wire.Descriptor); !ok {
		r.t.Fatalf("the answer to the hello is no descriptor")
	}
}

func (r *rig) send(f wire.Frame) {
	r.t.Helper()
	if err := r.gw.Send(context.WithoutCancel(r.t.Context()), f); err != nil {
		r.t.Errorf("send: %v", err)
	}
}

func (r *rig) write(message []byte) {
	r.t.Helper()
	if err := r.gw.Write(context.WithoutCancel(r.t.Context()), websocket.MessageText, message); err != nil {
		r.t.Errorf("write: %v", err)
	}
}

// ask sends an action of the chat "c" unless it names another.
func (r *rig) ask(id relay.RequestID, a relay.Action) {
	r.t.Helper()
	r.send(wire.Outbound{Request: relay.Request{ID: id, Action: a}})
}

// next is the next frame the gateway reads. It waits an hour of virtual time at most.
func (r *rig) next() wire.Frame {
	r.t.Helper()
	select {
	case f := <-r.frames:
		return f
	case <-time.After(time.Hour):
		r.t.Fatal("no frame came")
		return nil
	}
}

// nothing checks that no frame has come, once nothing moves any more.
func (r *rig) nothing() {
	r.t.Helper()
	synctest.Wait()
	select {
	case f := <-r.frames:
		r.t.Errorf("got a frame %#v, want none", f)
	default:
	}
}

// result is the next frame, which must be the answer to id.
func (r *rig) result(id relay.RequestID) wire.OutboundResult {
	r.t.Helper()
	f := r.next()
	res, ok := f.(wire.OutboundResult)
	if !ok || res.ID != id {
		r.t.Fatalf("got %#v, want the result of %s", f, id)
	}
	return res
}

func (r *rig) succeeded(id relay.RequestID, want relay.MessageID) {
	r.t.Helper()
	if res := r.result(id); res.Err != nil || res.Result.MessageID != want {
		r.t.Errorf("result of %s = %+v, %v, want message %q", id, res.Result, res.Err, want)
	}
}

// refused checks that the next frame says that id failed with words that steer the gateway.
func (r *rig) refused(id relay.RequestID, outcome relay.Outcome, words string) *relay.ActionError {
	r.t.Helper()
	res := r.result(id)
	if res.Err == nil || res.Err.Outcome != outcome || !strings.Contains(res.Err.Public, words) {
		r.t.Fatalf("result of %s = %+v, want outcome %v and %q", id, res.Err, outcome, words)
	}
	return res.Err
}

// wantClose waits for the end of both sides and checks the code the gateway was told.
func (r *rig) wantClose(code websocket.StatusCode, reason string) error {
	r.t.Helper()
	var ce websocket.CloseError
	if err := <-r.closed; !errors.As(err, &ce) || ce.Code != code || ce.Reason != reason {
		r.t.Errorf("the gateway was told %v, want %d %s", err, code, reason)
	}
	return <-r.run
}

func (r *rig) wantCount(name count.Counter, want int) {
	r.t.Helper()
	synctest.Wait()
	if got := r.counts.get(name); got != want {
		r.t.Errorf("%s = %d, want %d", name, got, want)
	}
}

func say(text string) relay.Send { return relay.Send{Chat: "c", Content: text} }
