package limits

import (
	"net/netip"
	"strconv"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestFailuresPerAddress(t *testing.T) {
	f := new(Failures)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	if wait := f.Wait(a, noon); wait != 0 {
		t.Errorf("before any failure: wait = %s, want none", wait)
	}
	for i := range MaxFailures {
		if wait := f.Wait(a, noon); wait != 0 {
			t.Fatalf("before failure %d: wait = %s, want none", i+1, wait)
		}
		if wait := f.Add(a, noon); wait != 0 {
			t.Fatalf("failure %d: wait = %s, want none", i+1, wait)
		}
	}
	if wait := f.Wait(a, noon.Add(10*time.Second)); wait != 50*time.Second {
		t.Errorf("with the failures used up: wait = %s, want the rest of the minute", wait)
	}
	if wait := f.Add(a, noon.Add(20*time.Second)); wait != 40*time.Second {
		t.Errorf("one failure too many: wait = %s, want the rest of the minute", wait)
	}
	if wait := f.Add(b, noon); wait != 0 {
		t.Errorf("a neighbour's first failure: wait = %s, want none", wait) // invariant 2
	}
	if wait := f.Wait(a, noon.Add(window)); wait != 0 {
		t.Errorf("a minute later: wait = %s, want none", wait)
	}
	if wait := f.Add(a, noon.Add(window)); wait != 0 {
		t.Errorf("the first failure of the next minute: wait = %s, want none", wait)
	}
	late := noon.Add(100 * window) // a new minute is counted like the first
	for range MaxFailures {
		f.Add(a, late)
	}
	if wait := f.Add(a, late.Add(time.Second)); wait != window-time.Second {
		t.Errorf("one failure too many, much later: wait = %s, want the rest of that minute", wait)
	}
}

func TestNeighbourhood(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b netip.Addr
		same bool
	}{
		"an IPv4 address":         {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.1"), true},
		"two IPv4 addresses":      {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), false},
		"IPv4 in IPv6":            {netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("192.0.2.1"), true},
		"one IPv6 subscriber":     {netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2:0:0:1"), true},
		"two IPv6 subscribers":    {netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:0:1::1"), false},
		"a zone is no address":    {netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fe80::1"), true},
		"the unknown are one":     {netip.Addr{}, netip.Addr{}, true},
		"nobody and the wildcard": {netip.Addr{}, netip.IPv4Unspecified(), false},
	} {
		t.Run(name, func(t *testing.T) {
			if same := neighbourhood(tc.a) == neighbourhood(tc.b); same != tc.same {
				t.Errorf("%s and %s are one neighbourhood: %t, want %t", tc.a, tc.b, same, tc.same)
			}
		})
	}
}

func TestRatesPerKey(t *testing.T) {
	r := NewRates(2, 5)
	for i := range 5 {
		if wait := r.Take("a", noon); wait != 0 {
			t.Fatalf("request %d of the burst: wait = %s, want none", i+1, wait)
		}
	}
	for range 3 { // asking costs nothing
		if wait := r.Take("a", noon); wait != 500*time.Millisecond {
			t.Fatalf("past the burst: wait = %s, want the time of one request", wait)
		}
	}
	if wait := r.Take("b", noon); wait != 0 {
		t.Errorf("another credential: wait = %s, want none", wait) // invariant 2
	}
	if wait := r.Take("a", noon.Add(500*time.Millisecond)); wait != 0 {
		t.Errorf("half a second later: wait = %s, want none", wait)
	}
	if wait := r.Take("a", noon.Add(500*time.Millisecond)); wait == 0 {
		t.Error("twice in half a second: no wait, want one")
	}
}

func TestShares(t *testing.T) {
	const each, all = 16, 20
	s := NewShare(all, each)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var leave []func()
	for i := range each {
		l, ok := s.Enter(a)
		if !ok {
			t.Fatalf("request %d is refused", i+1)
		}
		leave = append(leave, l)
	}
	if _, ok := s.Enter(a); ok {
		t.Error("one request too many is let in")
	}
	l, ok := s.Enter(b)
	if !ok {
		t.Fatal("another address is refused") // invariant 2
	}
	l()
	for i := range all - each { // whose address is unknown counts among all
		l, ok := s.Enter(netip.Addr{})
		if !ok {
			t.Fatalf("caller %d without an address is refused", i+1)
		}
		leave = append(leave, l)
	}
	if _, ok := s.Enter(b); ok {
		t.Error("more are let in than there may be together")
	}
	leave[0]()
	if l, ok = s.Enter(a); !ok {
		t.Fatal("refused although one has left")
	}
	for _, l := range append(leave[1:], l) {
		l()
	}
	if len(s.by) != 0 || s.held != 0 {
		t.Errorf("%d addresses and %d callers remembered with nobody inside, want none", len(s.by), s.held) // invariant 1
	}
}

func TestTablesAreBounded(t *testing.T) { // invariant 1
	f, r := new(Failures), NewRates(1, 1)
	behaved := netip.MustParseAddr("192.0.2.1")
	for range MaxFailures {
		f.Add(behaved, noon)
	}
	for i := range 3 * maxTracked {
		f.Add(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), noon)
		r.Take(strconv.Itoa(i), noon)
		if i%(maxTracked-1) == 0 && f.Add(behaved, noon) == 0 {
			t.Fatalf("an address that keeps failing is forgotten after %d others", i)
		}
	}
	for name, n := range map[string]int{"addresses": len(f.by.young) + len(f.by.old), "credentials": len(r.by.young) + len(r.by.old)} {
		if n < maxTracked || n > 2*maxTracked {
			t.Errorf("%s remembered: %d, want %d, or at most twice as many", name, n, maxTracked)
		}
	}
}
