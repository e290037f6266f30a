package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Route reserves a place for a tenant.
type Route = route.Record

// Routes are the places that tenants reserved. All methods: any goroutine.
type Routes struct{ db *DB }

// Set makes keys the routes that i declares on a platform, in place of those it declared
// before, and returns the ones it got, in the order of keys and each once. A key is left out when
// another tenant has a route with it, or holds a grant whose scope or chat it names. Instances of
// one tenant may declare the same key: each has a route of its own, so that the key stays
// reserved until the last of them gives it up. At most 100 keys of 1 to 256 bytes, otherwise an
// error, and nothing changes. ErrNotFound: no such instance, or it was revoked.
func (rs *Routes) Set(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, keys []string) (accepted []string, err error) {
	if err := route.Check(keys); err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	now := rs.db.now()
	err = rs.db.change(ctx, row, "routes", func(t *tx) error {
		inst, err := t.liveInstance(i)
		if err != nil {
			return err
		}
		foreign, err := t.foreign(p, inst.Tenant)
		if err != nil {
			return err
		}
		if accepted, err = route.Free(t.Tx, inst.Tenant, p, keys, foreign); err != nil {
			return err
		}
		return route.Replace(t.Writer, i, inst.Tenant, p, accepted, now)
	})
	return accepted, err
}

// foreign are the places that the grants of tenants other than this one name.
func (t *tx) foreign(p relay.PlatformID, tenant relay.TenantID) (map[string]bool, error) {
	grants, err := table.List[Grant](t.Tx, grant.Bucket, table.Prefix(p))
	out := make(map[string]bool)
	for _, g := range grants {
		if g.Tenant != tenant {
			out[string(g.Scope)], out[string(g.Chat)] = true, true
		}
	}
	return out, err
}

// List lists all routes, by platform, key and instance.
func (rs *Routes) List(ctx context.Context) ([]Route, error) {
	return get(ctx, rs.db, "routes", func(t *bolt.Tx) ([]Route, error) { return table.List[Route](t, route.Bucket, nil) })
}

// Drop removes the routes with a key, whoever declared them. ErrNotFound: there is none.
func (rs *Routes) Drop(ctx context.Context, row *audit.Entry, p relay.PlatformID, k string) error {
	return rs.db.change(ctx, row, "drop route", func(t *tx) error {
		before := t.Changes
		if err := table.DropUnder(t.Writer, route.Bucket, table.Prefix(p, k)); err != nil || t.Changes > before {
			return err
		}
		return ErrNotFound
	})
}

// moveRoutes takes a chat's routes to its new id, if their tenant may have one there.
func (t *tx) moveRoutes(m Move) error {
	return route.Move(t.Writer, m.Platform, string(m.From), string(m.To), func(tenant relay.TenantID) (map[string]bool, error) {
		return t.foreign(m.Platform, tenant)
	})
}
