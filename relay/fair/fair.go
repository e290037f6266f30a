// Package fair shares what is scarce: room for files, places for transfers, requests under way. It belongs to tenants
// first and to their instances second. There is one rule: whoever has the least comes next, and whoever has the most
// gives way first. So a tenant that is alone may have everything, and shares matter only while others want some, too.
//
// Invariants:
//
//  1. No more places are held than exist, and no instance holds more than it may.
//  2. A free place goes to the waiting tenant that holds the fewest places and may have it; within that tenant to the
//     instance that holds the fewest; within that instance to the request that has waited longest.
//  3. A place is asked back only while somebody waits who can get no other place. A slow transfer gives way if its
//     owner holds at least as many places as the waiting owner would hold then; after some patience, any transfer gives
//     way if its owner holds more than that. So tenants that always want places end with equally many: of two, each gets
//     half.
package fair

import (
	"cmp"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Owner is the tenant and instance whose share something counts against.
type Owner struct {
	Tenant   relay.TenantID
	Instance relay.InstanceID
}

// Tally is how much each owner has of something. The zero value is nothing. It is not safe for concurrent use.
type Tally struct {
	total     int64
	tenants   map[relay.TenantID]int64 // no value is 0, here and in instances
	instances map[Owner]int64
}

// Add adds n, which may be negative, to what the owners have. A thing that belongs to several owners counts once in the
// total, once for each tenant, and once for each instance.
func (t *Tally) Add(n int64, of ...Owner) {
	if t.tenants == nil {
		t.tenants, t.instances = make(map[relay.TenantID]int64), make(map[Owner]int64)
	}
	t.total += n
	for k, o := range of {
		if !slices.Contains(of[:k], o) {
			add(t.instances, o, n)
		}
		if !slices.ContainsFunc(of[:k], func(x Owner) bool { return x.Tenant == o.Tenant }) {
			add(t.tenants, o.Tenant, n)
		}
	}
}

func add[K comparable](to map[K]int64, k K, n int64) {
	if to[k] += n; to[k] == 0 {
		delete(to, k)
	}
}

// Total returns how much all owners have.
func (t *Tally) Total() int64 { return t.total }

// Of returns how much the tenant and the instance of o have.
func (t *Tally) Of(o Owner) (tenant, instance int64) { return t.tenants[o.Tenant], t.instances[o] }

// Compare sorts owners with less before owners with more: by their tenants, then by their instances. With
// slices.MinFunc it finds who comes next, in the order given if several have the same, and with slices.MaxFunc who
// gives way first.
func (t *Tally) Compare(a, b Owner) int {
	return cmp.Or(cmp.Compare(t.tenants[a.Tenant], t.tenants[b.Tenant]), cmp.Compare(t.instances[a], t.instances[b]))
}

// Against compares what the holder has with what the taker would have with n more. Above zero the holder has more, and
// may be asked to give way. Within one tenant it compares the instances; an instance compared with itself is 0.
func (t *Tally) Against(holder, taker Owner, n int64) int {
	switch {
	case holder.Tenant != taker.Tenant:
		return cmp.Compare(t.tenants[holder.Tenant], t.tenants[taker.Tenant]+n)
	case holder.Instance != taker.Instance:
		return cmp.Compare(t.instances[holder], t.instances[taker]+n)
	}
	return 0
}
