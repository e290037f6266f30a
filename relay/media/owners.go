package media

import (
	"context"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/store"
)

// owners knows who files count against: instances, with their tenants.
type owners struct {
	db *store.DB // set once

	mu    sync.Mutex                      // guards the fields below
	live  []fair.Owner                    // all that could have files, at the last look
	known map[relay.InstanceID]fair.Owner // an instance's tenant is for good
}

// all are the instances with their tenants. One that is not known has none.
func (w *owners) all(ctx context.Context, of []relay.InstanceID) []fair.Owner {
	out := make([]fair.Owner, len(of))
	for n, i := range of {
		out[n] = w.Owner(ctx, i)
	}
	return out
}

// Owner is whose share the files of an instance count against.
func (w *owners) Owner(ctx context.Context, i relay.InstanceID) fair.Owner {
	w.mu.Lock()
	o, ok := w.known[i]
	w.mu.Unlock()
	if ok {
		return o
	}
	r, err := store.Only(w.db.Instances(ctx, i))
	if err != nil { // it is gone, and so are its files soon
		return fair.Owner{Instance: i}
	}
	o = fair.Owner{Tenant: r.Tenant, Instance: i}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = make(map[relay.InstanceID]fair.Owner)
	}
	w.known[i] = o
	return o
}

// learn notes who could have files.
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

// neighbours are all who could have files. Whoever is new counts from the next look on, or from a first claim of their own.
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
