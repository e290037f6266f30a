package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

func TestRemote(t *testing.T) {
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.1/32")}}
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                            {"192.0.2.7:4000", nil, "192.0.2.7"},
		"a stranger's header does not count":  {"192.0.2.7:4000", []string{"198.51.100.1"}, "192.0.2.7"},
		"one proxy":                           {"127.0.0.1:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"the nearest foreign hop counts":      {"127.0.0.1:4000", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"a chain of proxies":                  {"127.0.0.1:4000", []string{"198.51.100.1, 10.0.0.1"}, "198.51.100.1"},
		"several headers are one list":        {"127.0.0.1:4000", []string{"198.51.100.1", "10.0.0.1"}, "198.51.100.1"},
		"garbage stops the walk":              {"127.0.0.1:4000", []string{"198.51.100.1, x"}, "127.0.0.1"},
		"an IPv4 address in IPv6 is the same": {"[::ffff:127.0.0.1]:4000", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a proxy that forwards nothing":       {"127.0.0.1:4000", nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/relay", nil)
			r.RemoteAddr = tc.peer
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := s.remote(r).String(); got != tc.want {
				t.Errorf("remote = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFailuresPerAddress(t *testing.T) {
	var f failures
	now := time.Unix(1_800_000_000, 0)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range maxFails {
		if wait := f.add(a, now); wait != 0 {
			t.Fatalf("failure %d: wait = %s, want none", i+1, wait)
		}
	}
	if wait := f.add(a, now.Add(20*time.Second)); wait != 40*time.Second {
		t.Errorf("one failure too many: wait = %s, want the rest of the minute", wait)
	}
	if wait := f.add(b, now); wait != 0 {
		t.Errorf("a neighbour's first failure: wait = %s, want none", wait)
	}
	if wait := f.add(a, now.Add(failWindow)); wait != 0 {
		t.Errorf("a minute later: wait = %s, want none", wait)
	}
	one, two := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for range maxFails {
		f.add(one, now)
	}
	if f.add(two, now) == 0 {
		t.Error("an IPv6 neighbour in the same /64 is another subscriber, want the same")
	}
}

func TestFailuresAreBounded(t *testing.T) {
	var f failures
	now := time.Unix(1_800_000_000, 0)
	for i := range 3 * maxTracked {
		f.add(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(f.by) > maxTracked {
		t.Errorf("%d addresses remembered, want at most %d", len(f.by), maxTracked)
	}
}
