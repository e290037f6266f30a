package media

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
)

// owners are the instances with their tenants. One that is not known has none.
func (k *Keeper) owners(ctx context.Context, of []relay.InstanceID) []fair.Owner {
	out := make([]fair.Owner, len(of))
	for n, i := range of {
		out[n] = k.Owner(ctx, i)
	}
	return out
}

// Owner is whose share the files of an instance count against.
func (k *Keeper) Owner(ctx context.Context, i relay.InstanceID) fair.Owner {
	k.mu.Lock()
	o, ok := k.known[i]
	k.mu.Unlock()
	if ok {
		return o
	}
	r, err := store.Only(k.db.Instances(ctx, i))
	if err != nil { // it is gone, and so are its files soon
		return fair.Owner{Instance: i}
	}
	o = fair.Owner{Tenant: r.Tenant, Instance: i}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[i] = o
	return o
}

// learnLive notes who could have files.
func (k *Keeper) learnLive(ctx context.Context) error {
	all, err := k.db.Gateways(ctx)
	if err != nil {
		return err
	}
	var live []fair.Owner
	for _, g := range all {
		if o := (fair.Owner{Tenant: g.Tenant, Instance: g.Instance}); !g.Revoked && !slices.Contains(live, o) {
			live = append(live, o)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live = live
	return nil
}

// neighbours are all who could have files. Whoever is new counts from the next look on, or from a first claim of their own.
func (k *Keeper) neighbours(ctx context.Context, of []fair.Owner) ([]fair.Owner, error) {
	known := func() (live []fair.Owner, ok bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.live, !slices.ContainsFunc(of, func(o fair.Owner) bool { return !slices.Contains(k.live, o) })
	}
	if live, ok := known(); ok {
		return live, nil
	}
	err := k.learnLive(ctx)
	live, _ := known()
	return live, err
}
