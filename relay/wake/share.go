package wake

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
)

// share is the group of requests that share places: those of one tenant to one host. Another tenant's requests to that
// host are a group of their own.
type share struct {
	tenant relay.TenantID
	host   string // empty: the URL names none
}

func shareOf(i store.Instance) share {
	s := share{tenant: i.Tenant}
	if u, err := url.Parse(i.WakeURL); err == nil {
		s.host = strings.ToLower(u.Hostname())
	}
	return s
}

// places are the requests under way. A Waker's mu guards them.
type places struct {
	tenants fair.Tally
	shares  map[share]int // never 0
}

func (p *places) add(s share, n int) {
	p.tenants.Add(int64(n), fair.Owner{Tenant: s.tenant})
	if p.shares[s] += n; p.shares[s] == 0 {
		delete(p.shares, s)
	}
}

// full reports whether there is no place for any further request.
func (p *places) full() bool { return p.tenants.Total() >= maxPokes }

// open reports whether the share has a place for another request. It is true for a share that is not known yet (the
// zero share).
func (p *places) open(s share) bool {
	tenants, _ := p.tenants.Of(fair.Owner{Tenant: s.tenant})
	return s == share{} || p.shares[s] < maxPerHost && tenants < maxPerTenant
}

// learn finds out the shares of the instances in due that were not looked at yet.
func (w *Waker) learn(ctx context.Context, due []relay.InstanceID) {
	for _, i := range due {
		w.mu.Lock()
		known := w.targets[i].share != share{}
		w.mu.Unlock()
		if known {
			continue
		}
		if inst, err := store.Only(w.db.Instances(ctx, i)); err == nil { // an error is met again right before the request
			w.mu.Lock()
			w.targets[i].share = shareOf(inst)
			w.mu.Unlock()
		}
	}
}

// turn picks the instance to look at next: its share has a place, its tenant has the fewest requests under way, and of
// that tenant it has waited longest, because due begins with the longest waiting. ok is false if no share has a place.
func (w *Waker) turn(due []relay.InstanceID) (i relay.InstanceID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var may []relay.InstanceID
	for _, i := range due {
		if w.running.open(w.targets[i].share) {
			may = append(may, i)
		}
	}
	if len(may) == 0 {
		return "", false
	}
	tenant := func(i relay.InstanceID) fair.Owner { return fair.Owner{Tenant: w.targets[i].share.tenant} }
	return slices.MinFunc(may, func(a, b relay.InstanceID) int { return w.running.tenants.Compare(tenant(a), tenant(b)) }), true
}
