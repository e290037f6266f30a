package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// bucketRoutes is the bucket of routes: platform|key|instance -> Route.
const bucketRoutes = "routes"

const (
	maxRoutes   = 100 // of an instance on a platform
	maxRouteKey = 256 // bytes
)

// Route reserves a place for a tenant: no other tenant may claim it by itself. It does not change who gets which
// messages.
type Route struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"` // a scope, a chat, or a path
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instance"` // declared it
	At       time.Time        `json:"at"`
}

// routeKey returns the key of a route.
func routeKey(r Route) []byte { return table.Key(r.Platform, r.Key, string(r.Instance)) }

// Routes are the places that tenants reserved. Its methods may be called from any goroutine.
type Routes struct{ db *DB }

// checkRoutes reports why keys cannot be those of an instance: at most 100, of 1 to 256 bytes.
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

// Set makes keys the routes that i declares on a platform, in place of its former ones, and returns the keys that it
// accepted, in the order of keys and each once. It leaves out a key if another tenant has a route with it, or holds a
// grant whose scope or chat it names. Instances of one tenant may declare the same key: each has a route of its own, so
// that the key stays reserved until the last of them gives it up. There may be at most 100 keys of 1 to 256 bytes;
// otherwise it returns an error, and changes nothing. ErrNotFound: the instance does not exist, or was revoked.
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
		if accepted, err = freeRoutes(t.Tx, inst.Tenant, p, keys); err != nil {
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

// freeRoutes returns those of keys with which tenant may have routes, each once: no other tenant has one, nor a grant
// whose scope or chat it names.
func freeRoutes(t *bolt.Tx, tenant relay.TenantID, p relay.PlatformID, keys []string) (free []string, err error) {
	all, err := table.List[Grant](t, BucketGrants, table.Prefix(p))
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		taken, err := reserved(t, tenant, p, k)
		if err != nil {
			return nil, err
		}
		foreign := func(g Grant) bool { return g.Tenant != tenant && (string(g.Scope) == k || string(g.Chat) == k) }
		if !taken && !slices.ContainsFunc(all, foreign) && !slices.Contains(free, k) {
			free = append(free, k)
		}
	}
	return free, nil
}

// routeKeysOf returns the keys under pre of the routes that i declared.
func routeKeysOf(t *bolt.Tx, pre []byte, i relay.InstanceID) [][]byte {
	end := append([]byte{0}, table.Key(i)...)
	return slices.DeleteFunc(table.KeysUnder(t, bucketRoutes, pre), func(k []byte) bool { return !bytes.HasSuffix(k, end) })
}

// reserved reports whether a tenant other than this one has a route with key k.
func reserved(t *bolt.Tx, tenant relay.TenantID, p relay.PlatformID, k string) (bool, error) {
	routes, err := table.List[Route](t, bucketRoutes, table.Prefix(p, k))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(routes, func(r Route) bool { return r.Tenant != tenant }), nil
}

// List lists all routes, by platform, key and instance.
func (rs *Routes) List(ctx context.Context) ([]Route, error) {
	return table.Get(ctx, rs.db.records, "routes", func(t *bolt.Tx) ([]Route, error) { return table.List[Route](t, bucketRoutes, nil) })
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

// moveRoutes is moveChat for routes. A route is dropped if its tenant may not have one at the new id.
func moveRoutes(w *table.Writer, m Move) error {
	routes, err := table.List[Route](w.Tx, bucketRoutes, table.Prefix(m.Platform, string(m.From)))
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := w.Delete(bucketRoutes, routeKey(r)); err != nil {
			return err
		}
		r.Key = string(m.To)
		free, err := freeRoutes(w.Tx, r.Tenant, m.Platform, []string{r.Key})
		if err != nil {
			return err
		}
		if len(free) == 0 || table.Has(w.Tx, bucketRoutes, routeKey(r)) {
			continue
		}
		if err := w.Put(bucketRoutes, routeKey(r), r); err != nil {
			return err
		}
	}
	return nil
}
