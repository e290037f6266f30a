// Package limit keeps callers from getting in each other's way: it counts the credentials that
// failed per address, the requests per credential, and the strangers' connections and requests at
// a time.
//
// It does not know what a credential is, and it answers nobody: it says how long to wait.
//
// Invariants:
//
//  1. Whatever is kept per caller is bounded, however many callers there are.
//  2. What one address or one credential does changes no answer for another, as long as fewer than
//     maxTracked of them are at it.
package limit

import (
	"container/list"
	"net/netip"
)

// maxTracked bounds how many addresses, or credentials, are remembered at once. An attacker with
// more addresses than that is beyond a table.
const maxTracked = 10_000

// table remembers the maxTracked keys that were asked for last.
type table[K comparable, V any] struct {
	by    map[K]*list.Element // of row[K, V]
	order *list.List          // latest first
}

type row[K comparable, V any] struct {
	key   K
	value V
}

func newTable[K comparable, V any]() table[K, V] {
	return table[K, V]{by: make(map[K]*list.Element), order: list.New()}
}

// at is the place of key's value, which begins as the zero value. It is valid until the next call.
func (t *table[K, V]) at(key K) *V {
	if e, ok := t.by[key]; ok {
		t.order.MoveToFront(e)
		return &e.Value.(*row[K, V]).value
	}
	if len(t.by) >= maxTracked {
		oldest := t.order.Back()
		delete(t.by, t.order.Remove(oldest).(*row[K, V]).key)
	}
	r := &row[K, V]{key: key}
	t.by[key] = t.order.PushFront(r)
	return &r.value
}

// Neighbourhood is what one subscriber holds: an IPv4 address or an IPv6 /64. Callers whose
// address is unknown (the zero Addr) share one.
func Neighbourhood(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil { // the zero Addr
		return netip.Prefix{}
	}
	return p
}
