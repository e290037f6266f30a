package hub

import (
	"net/netip"
	"time"
)

const (
	// takeoverWindow and maxTakeovers: more takeovers than this within the window, from at least
	// two addresses, mean that a credential was copied and its users fight for the seat.
	takeoverWindow = time.Minute
	maxTakeovers   = 5
	maxRemembered  = 32 // bounds the history of one instance
)

// takeovers is one instance's recent history of sessions replacing each other.
type takeovers struct {
	recent []takeover
	until  time.Time // while in the future, the credential counts as copied
}

type takeover struct {
	at   time.Time
	from netip.Addr
}

// add notes a takeover and reports whether it shows a copied credential.
func (t *takeovers) add(now time.Time, from netip.Addr) bool {
	keep := t.recent[:0]
	for _, x := range t.recent {
		if now.Sub(x.at) < takeoverWindow {
			keep = append(keep, x)
		}
	}
	t.recent = append(keep, takeover{now, from})
	if extra := len(t.recent) - maxRemembered; extra > 0 {
		t.recent = t.recent[extra:]
	}
	if len(t.recent) <= maxTakeovers {
		return false
	}
	for _, x := range t.recent {
		if x.from != from {
			t.until = now.Add(takeoverWindow)
			return true
		}
	}
	return false
}

// copied reports whether the credential counts as copied now.
func (t *takeovers) copied(now time.Time) bool { return now.Before(t.until) }
