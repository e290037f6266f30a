// Package limits keeps callers from getting in each other's way: it counts the credentials that failed per address,
// the requests per credential, and the strangers' connections and requests at a time. It answers no caller: it returns
// how long the caller has to wait.
//
// Invariants:
//
//  1. Whatever is kept per caller is bounded, however many callers there are.
//  2. One address or one credential changes no answer for another, as long as fewer than maxTracked of them are active.
package limits

import "net/netip"

// maxTracked is how many addresses, or credentials, a table remembers at least; at most it remembers twice as many. No
// table helps against an attacker with more addresses.
const maxTracked = 10_000

// table remembers the values of the keys that were asked for last. When young is full, it becomes old, and the former
// old is forgotten. The zero value is ready.
type table[K comparable, V any] struct{ young, old map[K]*V }

// at returns a pointer to key's value; that of a new or forgotten key is the zero value.
func (t *table[K, V]) at(key K) *V {
	if v, ok := t.young[key]; ok {
		return v
	}
	v, ok := t.old[key]
	if !ok {
		v = new(V)
	}
	delete(t.old, key)
	if t.young == nil || len(t.young) >= maxTracked {
		t.old, t.young = t.young, make(map[K]*V)
	}
	t.young[key] = v
	return v
}

// neighbourhood returns the addresses that one subscriber has: an IPv4 address or an IPv6 /64. Callers whose address is
// unknown (the zero Addr) share one.
func neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	p, _ := a.Prefix(min(a.BitLen(), 64)) // cannot fail
	return p
}
