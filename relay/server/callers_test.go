package server

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/limit"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// TestSilentCallersMakeRoom: more strangers than there is room for, who say nothing, keep nobody out.
func TestSilentCallersMakeRoom(t *testing.T) {
	r := newRig(t)
	for range 2 * maxCallers {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	if code, _ := r.ask(client, http.MethodGet, "/healthz", "", "", ""); code != http.StatusOK {
		t.Errorf("GET /healthz = %d, want 200", code)
	}
	if n := r.hub.Counters()[countCallerEvicted]; n == 0 { // 10 s later they would have gone by themselves
		t.Error("no silent connection had to go although others waited")
	}
}

// queued is a listener with these connections.
type queued chan net.Conn

func (l queued) Accept() (net.Conn, error) { return <-l, nil }
func (queued) Close() error                { return nil }
func (queued) Addr() net.Addr              { return &net.TCPAddr{} }

// TestTheOldestOfTheSilentGoes when another one waits, after waitTime and not before.
func TestTheOldestOfTheSilentGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, evicted := make(queued, 2*maxCallers), 0
		for range cap(l) {
			here, there := net.Pipe()
			defer func() { _ = here.Close() }()
			l <- there
		}
		c := newCallers(l, func() { evicted++ })
		start := time.Now()
		var in []net.Conn
		for n := range cap(l) {
			conn, err := c.Accept()
			if err != nil {
				t.Fatal(err)
			}
			in = append(in, conn)
			want, gone := time.Duration(0), max(0, n+1-maxCallers)
			if gone > 0 {
				want = waitTime
			}
			if took := time.Since(start); took != want || evicted != gone || len(c.by) != n+1-gone {
				t.Fatalf("caller %d came in after %s; %d had to go, %d stay; want %s, %d, %d", n, took, evicted, len(c.by), want, gone, n+1-gone)
			}
		}
		for n, conn := range in {
			if _, stays := c.by[conn]; stays != (n >= maxCallers) {
				t.Errorf("caller %d stays: %t", n, stays)
			}
		}
	})
}

// TestSessionsAreNoCallers: sessions take no room from those who come.
func TestSessionsAreNoCallers(t *testing.T) {
	c := newCallers(nil, nil)
	a, b := net.Pipe()
	defer func() { _ = a.Close(); _ = b.Close() }()
	for _, s := range []http.ConnState{http.StateHijacked, http.StateClosed} {
		c.by[a] = c.order.PushBack(&caller{conn: a, since: time.Now()})
		c.state(a, http.StateActive)
		if len(c.by) != 1 {
			t.Errorf("%d callers, want 1", len(c.by))
		}
		c.state(a, s)
		if len(c.by) != 0 || c.order.Len() != 0 {
			t.Errorf("after %s: %d callers, want none", s, len(c.by))
		}
	}
}

// TestOldTokensAreLimitedToo: tokens that were good once do not open connections without end.
func TestOldTokensAreLimitedToo(t *testing.T) {
	r := newRig(t)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	old := token.Mint("home", r.secret, time.Now().Add(-time.Hour))
	for n := range limit.MaxFailures + 1 {
		code, header := r.ask(client, http.MethodGet, "/relay", "192.0.2.9", old, "")
		if want := http.StatusTooManyRequests; n == limit.MaxFailures && (code != want || header.Get("Retry-After") == "") {
			t.Errorf("attempt %d: %d with Retry-After %q, want %d with one", n+1, code, header.Get("Retry-After"), want)
		} else if n < limit.MaxFailures && code == want {
			t.Errorf("attempt %d: %d, want it judged", n+1, code)
		}
	}
}
