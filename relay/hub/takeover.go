package hub

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// takeoverWindow and maxTakeovers: more takeovers than this within the window, from at least
	// two addresses, mean that a credential was copied and its users fight for the instance.
	takeoverWindow = time.Minute
	maxTakeovers   = 5
	maxRemembered  = 32 // the longest history of one instance
)

// takeovers is the recent history of sessions of one instance that replaced each other.
type takeovers struct {
	recent []takeover
	until  time.Time // while in the future, the credential counts as copied
}

// takeover is one such replacement, with the address of the newer session.
type takeover struct {
	at   time.Time
	from netip.Addr
}

// add notes a takeover and reports whether it shows a copied credential.
func (t *takeovers) add(now time.Time, from netip.Addr) bool {
	t.recent = append(slices.DeleteFunc(t.recent, func(x takeover) bool { return now.Sub(x.at) >= takeoverWindow }), takeover{now, from})
	t.recent = t.recent[max(0, len(t.recent)-maxRemembered):]
	elsewhere := slices.ContainsFunc(t.recent, func(x takeover) bool { return x.from != from })
	if len(t.recent) <= maxTakeovers || !elsewhere {
		return false
	}
	t.until = now.Add(takeoverWindow)
	return true
}

// restless reports whether so many sessions took over that two programs must share the credential, even if they seem to
// be at one address: a single program that redials takes over from its own dead session, and seldom twice in a row.
func (t *takeovers) restless(now time.Time) bool {
	n := 0
	for _, x := range t.recent {
		if now.Sub(x.at) < takeoverWindow {
			n++
		}
	}
	return t.copied(now) || n > 2*maxTakeovers
}

// copied reports whether the credential counts as copied now.
func (t *takeovers) copied(now time.Time) bool { return now.Before(t.until) }
