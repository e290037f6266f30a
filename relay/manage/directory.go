package manage

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Named names a gateway or an instance; by default a gateway and its instance have the same name.
type Named struct {
	Name string `json:"name"`
}

// directory finds instances and gateways by the names that people type.
type directory struct{ db *store.DB }

// instance finds the instance that a name stands for: the instance's id, the id of one of its gateways, or the name it
// was given.
func (d directory) instance(ctx context.Context, name string) (store.Instance, error) {
	inst, err := store.Only(d.db.Instances(ctx, relay.InstanceID(name)))
	if !errors.Is(err, store.ErrNotFound) {
		return inst, err
	}
	switch g, err := store.Only(d.db.Gateways(ctx, relay.GatewayID(name))); {
	case errors.Is(err, store.ErrNotFound):
		inst, err := d.db.Labels.Find(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			err = noGateway(name)
		}
		return inst, err
	case err != nil:
		return store.Instance{}, err
	default:
		return store.Only(d.db.Instances(ctx, g.Instance))
	}
}

// maybe is instance, but returns the zero instance for an empty name.
func (d directory) maybe(ctx context.Context, n Named) (store.Instance, error) {
	if n.Name == "" {
		return store.Instance{}, nil
	}
	return d.instance(ctx, n.Name)
}

// served returns the instance that a name stands for, refused when no gateway can serve that instance any more: nothing
// may be granted to a revoked instance.
func (d directory) served(ctx context.Context, name string) (store.Instance, error) {
	inst, err := d.instance(ctx, name)
	if err != nil {
		return inst, err
	}
	live, err := d.liveGateways(ctx)
	if err == nil && !live[inst.ID] {
		err = revoked(name)
	}
	return inst, err
}

// liveGateways returns the instances that a gateway can serve.
func (d directory) liveGateways(ctx context.Context) (map[relay.InstanceID]bool, error) {
	all, err := d.db.Gateways(ctx)
	if err != nil {
		return nil, err
	}
	live := make(map[relay.InstanceID]bool)
	for _, g := range all {
		if !g.Revoked {
			live[g.Instance] = true
		}
	}
	return live, nil
}

// grants returns the grants of an instance; if i is empty, all grants.
func (d directory) grants(ctx context.Context, i relay.InstanceID) ([]Grant, error) {
	all, err := d.db.Grants(ctx, store.GrantFilter{Instance: i})
	return each(all, func(g store.Grant) Grant { return d.grant(ctx, g) }), err
}

// gateway finds a gateway by its id, or by its instance's name or id if only one gateway of that instance is not
// revoked.
func (d directory) gateway(ctx context.Context, name string) (store.Gateway, error) {
	g, err := store.Only(d.db.Gateways(ctx, relay.GatewayID(name)))
	if !errors.Is(err, store.ErrNotFound) {
		return g, err
	}
	all, listed := d.db.Gateways(ctx)
	if listed != nil {
		return g, listed
	}
	of, err := d.db.Labels.Find(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return g, err
	}
	id := cmp.Or(of.ID, relay.InstanceID(name))
	var its []store.Gateway // a gateway that provisions itself brings its own name
	for _, other := range all {
		if other.Instance == id && !other.Revoked {
			its = append(its, other)
		}
	}
	switch len(its) {
	case 0:
		return g, noGateway(name)
	case 1:
		return its[0], nil
	}
	names := strings.Join(each(its, func(g store.Gateway) string { return string(g.ID) }), ", ")
	return g, refuse(NotFound, "%q is an instance with several gateways: name one of them (%s)", name, names)
}

func noGateway(name string) error {
	return refuse(NotFound, "no gateway is called %q", name).try("gateways")
}
