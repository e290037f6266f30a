package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const (
	maxRoutes   = 100 // keys of an instance on a platform
	maxRouteKey = 256 // bytes
)

// Routes are the places that tenants reserved. All methods: any goroutine.
type Routes struct{ db *DB }

// Set makes keys the routes that i declares on a platform, in place of those it declared
// before, and returns the ones it got, in the order of keys and each once. A key is left out when
// another tenant has a route with it, or holds a grant whose scope or chat it names. Instances of
// one tenant may declare the same key: each has a route of its own, so that the key stays
// reserved until the last of them gives it up. At most 100 keys of 1 to 256 bytes, otherwise an
// error, and nothing changes. ErrNotFound: no such instance, or it was revoked.
func (rs *Routes) Set(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, keys []string) (accepted []string, err error) {
	if err := checkRoutes(keys); err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	now := rs.db.now()
	err = rs.db.change(ctx, row, "routes", func(t *tx) error {
		inst, err := t.liveInstance(i)
		if err != nil {
			return err
		}
		if accepted, err = t.routable(inst.Tenant, p, keys); err != nil {
			return err
		}
		want := make(map[string]Route, len(accepted))
		for _, k := range accepted {
			r := Route{Platform: p, Key: k, Tenant: inst.Tenant, Instance: i, At: now}
			want[string(routeKey(r))] = r
		}
		for _, k := range routeKeysOf(t.Tx, table.Prefix(p), i) {
			if _, keep := want[string(k)]; keep {
				delete(want, string(k))
				continue
			}
			if err := t.Delete(bucketRoutes, k); err != nil {
				return err
			}
		}
		for k, r := range want {
			if err := t.Put(bucketRoutes, []byte(k), r); err != nil {
				return err
			}
		}
		return nil
	})
	return accepted, err
}

func checkRoutes(keys []string) error {
	if len(keys) > maxRoutes {
		return fmt.Errorf("%d keys, and %d are allowed", len(keys), maxRoutes)
	}
	for n, k := range keys {
		if k == "" || len(k) > maxRouteKey {
			return fmt.Errorf("key %d has %d bytes, and 1 to %d are allowed", n+1, len(k), maxRouteKey)
		}
	}
	return nil
}

// routable are those of keys that tenant may have routes with, each once.
func (t *tx) routable(tenant relay.TenantID, p relay.PlatformID, keys []string) ([]string, error) {
	grants, err := table.List[Grant](t.Tx, BucketGrants, table.Prefix(p))
	if err != nil {
		return nil, err
	}
	foreign := make(map[string]bool)
	for _, g := range grants {
		if g.Tenant != tenant {
			foreign[string(g.Scope)], foreign[string(g.Chat)] = true, true
		}
	}
	var out []string
	for _, k := range keys {
		taken, err := t.reserved(tenant, p, k)
		if err != nil {
			return nil, err
		}
		if !taken && !foreign[k] && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// routeKeysOf are the keys under pre of the routes that i declared.
func routeKeysOf(t *bolt.Tx, pre []byte, i relay.InstanceID) [][]byte {
	end := append([]byte{0}, table.Key(i)...)
	return slices.DeleteFunc(table.KeysUnder(t, bucketRoutes, pre), func(k []byte) bool { return !bytes.HasSuffix(k, end) })
}

// reserved reports whether a tenant other than this one has a route with key k.
func (t *tx) reserved(tenant relay.TenantID, p relay.PlatformID, k string) (bool, error) {
	routes, err := table.List[Route](t.Tx, bucketRoutes, table.Prefix(p, k))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(routes, func(r Route) bool { return r.Tenant != tenant }), nil
}

// List lists all routes, by platform, key and instance.
func (rs *Routes) List(ctx context.Context) ([]Route, error) {
	return get(ctx, rs.db, "routes", func(t *bolt.Tx) ([]Route, error) { return table.List[Route](t, bucketRoutes, nil) })
}

// Drop removes the routes with a key, whoever declared them. ErrNotFound: there is none.
func (rs *Routes) Drop(ctx context.Context, row *audit.Entry, p relay.PlatformID, k string) error {
	return rs.db.change(ctx, row, "drop route", func(t *tx) error {
		before := t.Changes
		if err := table.DropUnder(t.Writer, bucketRoutes, table.Prefix(p, k)); err != nil || t.Changes > before {
			return err
		}
		return ErrNotFound
	})
}

// moveRoutes takes a chat's routes to its new id, if their tenant may have one there.
func (t *tx) moveRoutes(m Move) error {
	routes, err := table.List[Route](t.Tx, bucketRoutes, table.Prefix(m.Platform, string(m.From)))
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := t.Delete(bucketRoutes, routeKey(r)); err != nil {
			return err
		}
		free, err := t.routable(r.Tenant, m.Platform, []string{string(m.To)})
		if err != nil {
			return err
		}
		if r.Key = string(m.To); len(free) == 0 || table.Has(t.Tx, bucketRoutes, routeKey(r)) {
			continue
		}
		if err := t.Put(bucketRoutes, routeKey(r), r); err != nil {
			return err
		}
	}
	return nil
}
