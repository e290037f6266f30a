package server

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/limit"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// TestSilentCallersMakeRoom: more strangers than there is room for, who say nothing, keep nobody out.
func TestSilentCallersMakeRoom(t *testing.T) {
	r := newRig(t)
	ended := make(chan struct{}, 2*maxCallers) // holds every end
	for range 2 * maxCallers {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ended <- struct{}{}
		}()
	}
	client := &http.Client{Timeout: 20 * waitTime}
	defer client.CloseIdleConnections()
	if code, _ := r.ask(client, http.MethodGet, "/healthz", "", "", ""); code != http.StatusOK {
		t.Errorf("GET /healthz = %d, want 200", code)
	}
	for range maxCallers { // those in the way; 10 s later they would have gone by themselves
		select {
		case <-ended:
		case <-time.After(8 * time.Second):
			t.Fatal("silent connections stay although others wait")
		}
	}
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
