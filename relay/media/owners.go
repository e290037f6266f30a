package media

import (
	"context"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
)

// owners knows whose share a file counts against: an owner is an instance with its tenant.
type owners struct {
	db *store.DB // set once

	mu    sync.Mutex                      // guards the fields below
	live  []fair.Owner                    // every owner that could have files, as learn saw it last
	known map[relay.InstanceID]fair.Owner // a cache: an instance never changes its tenant
}

// all returns the owner of each instance.
func (w *owners) all(ctx context.Context, of []relay.InstanceID) []fair.Owner {
	out := make([]fair.Owner, len(of))
	for n, i := range of {
		out[n] = w.Owner(ctx, i)
	}
	return out
}

// Owner returns the owner that an instance's files count against. If the instance is not known, it has no tenant.
func (w *owners) Owner(ctx context.Context, i relay.InstanceID) fair.Owner {
	w.mu.Lock()
	o, ok := w.known[i]
	w.mu.Unlock()
	if ok {
		return o
	}
	r, err := store.Only(w.db.Instances(ctx, i))
	if err != nil { // it is gone, and its files will go soon
		return fair.Owner{Instance: i}
	}
	o = fair.Owner{Tenant: r.Tenant, Instance: i}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[i] = o
	return o
}

// learn reads from the database which owners could have files.
func (w *owners) learn(ctx context.Context) error {
	all, err := w.db.Gateways(ctx)
	if err != nil {
		return err
	}
	var live []fair.Owner
	for _, g := range all {
		if o := (fair.Owner{Tenant: g.Tenant, Instance: g.Instance}); !g.Revoked && !slices.Contains(live, o) {
			live = append(live, o)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = live
	return nil
}

// neighbours returns all owners that could have files, those of the claim (of) among them. It learns them anew only if
// one of these is missing, so another new owner counts from the next learn on.
func (w *owners) neighbours(ctx context.Context, of []fair.Owner) ([]fair.Owner, error) {
	known := func() (live []fair.Owner, ok bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.live, !slices.ContainsFunc(of, func(o fair.Owner) bool { return !slices.Contains(w.live, o) })
	}
	if live, ok := known(); ok {
		return live, nil
	}
	err := w.learn(ctx)
	live, _ := known()
	return live, err
}
