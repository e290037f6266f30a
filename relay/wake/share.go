package wake

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// share is what a request takes a place of: its tenant's requests to one host. Another tenant may name the same host.
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

// places are the requests under way, by whose they are.
type places map[share]int

// taken is how many there are, of all and of each tenant.
func (p places) taken() (all int, of map[relay.TenantID]int) {
	of = make(map[relay.TenantID]int)
	for s, n := range p {
		all += n
		of[s.tenant] += n
	}
	return all, of
}

// full reports whether nobody has a place.
func (p places) full() bool {
	all, _ := p.taken()
	return all >= maxPokes
}

// open reports whether there is a place for another request of s, if it is known whose that is.
func (p places) open(s share) bool {
	_, of := p.taken()
	return s == share{} || p[s] < maxPerHost && of[s.tenant] < maxPerTenant
}

// place finds out whose requests those would be of which that is not known yet.
func (w *Waker) place(ctx context.Context, due []relay.InstanceID) {
	for _, i := range due {
		w.mu.Lock()
		known := w.targets[i].share != share{}
		w.mu.Unlock()
		if known {
			continue
		}
		if inst, err := store.Only(w.db.Instances(ctx, i)); err == nil { // another error is met again right before the request
			w.mu.Lock()
			w.targets[i].share = shareOf(inst)
			w.mu.Unlock()
		}
	}
}

// inTurn is due in another order: tenants take turns, the ones with the fewest requests under way first. Of one tenant
// the order stays, but for those whose share has no place: they come last.
func (w *Waker) inTurn(due []relay.InstanceID) []relay.InstanceID {
	w.mu.Lock()
	defer w.mu.Unlock()
	then := maps.Clone(w.running)
	_, of := then.taken()
	turn := make(map[relay.InstanceID]int, len(due))
	for _, i := range due {
		s := w.targets[i].share
		if then[s] >= maxPerHost {
			turn[i] = len(due) + maxPokes
			continue
		}
		turn[i] = of[s.tenant]
		then[s]++
		of[s.tenant]++
	}
	slices.SortStableFunc(due, func(a, b relay.InstanceID) int { return cmp.Compare(turn[a], turn[b]) })
	return due
}
