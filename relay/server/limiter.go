package server

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// failWindow and maxFails: an address with this many failed upgrades within the window is
	// answered 429 until the window has passed.
	failWindow = time.Minute
	maxFails   = 10
	// maxTracked bounds the table; when it is full, the windows that have passed are dropped, and
	// if none has, the table starts over: an attacker with that many addresses is beyond a table.
	maxTracked = 10_000
)

// failures counts failed upgrades per address. A success neither counts nor asks: a credential
// that verifies is never refused for its neighbours' failures.
type failures struct {
	mu sync.Mutex // guards by
	by map[netip.Prefix]failing
}

type failing struct {
	since time.Time
	n     int
}

// add notes a failure and returns how long the address must wait, 0 when it is within its limit.
func (f *failures) add(addr netip.Addr, now time.Time) time.Duration {
	key := neighbourhood(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = make(map[netip.Prefix]failing)
	}
	x := f.by[key]
	if now.Sub(x.since) >= failWindow {
		if len(f.by) >= maxTracked {
			f.makeRoomLocked(now)
		}
		x = failing{since: now}
	}
	x.n++
	f.by[key] = x
	if x.n <= maxFails {
		return 0
	}
	return x.since.Add(failWindow).Sub(now)
}

// makeRoomLocked drops passed windows. f.mu must be held.
func (f *failures) makeRoomLocked(now time.Time) {
	for k, x := range f.by {
		if now.Sub(x.since) >= failWindow {
			delete(f.by, k)
		}
	}
	if len(f.by) >= maxTracked {
		clear(f.by)
	}
}

// neighbourhood is what one subscriber holds: an IPv4 address or an IPv6 /64.
func neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil { // the zero Addr: unknown callers share one window
		return netip.Prefix{}
	}
	return p
}
