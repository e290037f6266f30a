package server

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// TestSilentCallersKeepNobodyOut: more strangers of one address than there is room for, who say nothing,
// keep nobody from another address out. (One that has a share of the machine's own addresses.)
func TestSilentCallersKeepNobodyOut(t *testing.T) {
	r := newRig(t, func(o *Options) { o.TrustedProxies = nil })
	for range 2 * limits.MaxOfAddress {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	elsewhere := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: elsewhere.DialContext}}
	defer client.CloseIdleConnections()
	if code, _ := r.ask(client, http.MethodGet, "/healthz", "", "", ""); code != http.StatusOK {
		t.Errorf("GET /healthz = %d, want 200", code)
	}
	if n := r.hub.Counters()[count.CallerRefused.String()]; n == 0 {
		t.Error("nobody was turned away although one address had more than its share")
	}
}

// TestOldTokensAreLimitedToo: tokens that were good once do not open connections without end.
func TestOldTokensAreLimitedToo(t *testing.T) {
	r := newRig(t)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	old := token.Mint("home", r.secret, time.Now().Add(-time.Hour))
	for n := range limits.MaxFailures + 1 {
		code, header := r.ask(client, http.MethodGet, "/relay", "192.0.2.9", old, "")
		if want := http.StatusTooManyRequests; n == limits.MaxFailures && (code != want || header.Get("Retry-After") == "") {
			t.Errorf("attempt %d: %d with Retry-After %q, want %d with one", n+1, code, header.Get("Retry-After"), want)
		} else if n < limits.MaxFailures && code == want {
			t.Errorf("attempt %d: %d, want it judged", n+1, code)
		}
	}
}
