package limits

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// An address with more than MaxFailures failures within window is refused until that window has passed.
	window      = time.Minute
	MaxFailures = 10
)

// Failures counts failed credentials per address. A credential that verifies is never refused for its
// neighbours' failures. The zero value is ready. Its methods may be called from any goroutine.
type Failures struct {
	mu sync.Mutex // guards by
	by table[netip.Prefix, failing]
}

// failing counts the failures of one address in the window that began at since.
type failing struct {
	since time.Time
	n     int
}

// Add notes a failure and returns how long the address must wait; 0: it is within its limit.
func (f *Failures) Add(a netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.by.at(neighbourhood(a))
	if now.Sub(x.since) >= window {
		*x = failing{since: now}
	}
	x.n++
	return x.wait(now, MaxFailures)
}

// Wait returns how long an address must wait before it may fail once more; 0: it may now. It is for checks that cost a
// third party something.
func (f *Failures) Wait(a netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by.at(neighbourhood(a)).wait(now, MaxFailures-1)
}

// wait returns what is left of the window if it has more than most failures, and otherwise 0.
func (x failing) wait(now time.Time, most int) time.Duration {
	if x.n <= most {
		return 0
	}
	return max(0, x.since.Add(window).Sub(now))
}
