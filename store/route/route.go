// Package route is the places that tenants reserved: none other may claim one on its own. They do not change who gets
// what.
package route

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of routes: platform|key|instance -> Record.
const Bucket = "routes"

const (
	maxKeys = 100 // of an instance on a platform
	maxKey  = 256 // bytes
)

// Record reserves a place for a tenant.
type Record struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"` // a scope, a chat, or a path
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instance"` // declared it
	At       time.Time        `json:"at"`
}

// Key is where the route stands.
func Key(r Record) []byte { return table.Key(r.Platform, r.Key, string(r.Instance)) }

// Check reports why keys cannot be those of an instance: at most 100, of 1 to 256 bytes.
func Check(keys []string) error {
	if len(keys) > maxKeys {
		return fmt.Errorf("%d keys, and %d are allowed", len(keys), maxKeys)
	}
	for n, k := range keys {
		if k == "" || len(k) > maxKey {
			return fmt.Errorf("key %d has %d bytes, and 1 to %d are allowed", n+1, len(k), maxKey)
		}
	}
	return nil
}

// Free are those of keys that tenant may have routes with, each once: no other has one, and none of them is foreign, the
// places that others' grants name.
func Free(t *bolt.Tx, tenant relay.TenantID, p relay.PlatformID, keys []string, foreign map[string]bool) ([]string, error) {
	var out []string
	for _, k := range keys {
		taken, err := Reserved(t, tenant, p, k)
		if err != nil {
			return nil, err
		}
		if !taken && !foreign[k] && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// Replace makes keys the routes of i on a platform, in place of those it had.
func Replace(w *table.Writer, i relay.InstanceID, tenant relay.TenantID, p relay.PlatformID, keys []string, now time.Time) error {
	want := make(map[string]Record, len(keys))
	for _, k := range keys {
		r := Record{Platform: p, Key: k, Tenant: tenant, Instance: i, At: now}
		want[string(Key(r))] = r
	}
	for _, k := range KeysOf(w.Tx, table.Prefix(p), i) {
		if _, keep := want[string(k)]; keep {
			delete(want, string(k))
			continue
		}
		if err := w.Delete(Bucket, k); err != nil {
			return err
		}
	}
	for k, r := range want {
		if err := w.Put(Bucket, []byte(k), r); err != nil {
			return err
		}
	}
	return nil
}

// KeysOf are the keys under pre of the routes that i declared.
func KeysOf(t *bolt.Tx, pre []byte, i relay.InstanceID) [][]byte {
	end := append([]byte{0}, table.Key(i)...)
	return slices.DeleteFunc(table.KeysUnder(t, Bucket, pre), func(k []byte) bool { return !bytes.HasSuffix(k, end) })
}

// Reserved reports whether a tenant other than this one has a route with key k.
func Reserved(t *bolt.Tx, tenant relay.TenantID, p relay.PlatformID, k string) (bool, error) {
	routes, err := table.List[Record](t, Bucket, table.Prefix(p, k))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(routes, func(r Record) bool { return r.Tenant != tenant }), nil
}

// Move takes the routes of a place to its new key, those of tenants that may have one there: foreign are a tenant's
// places that others' grants name.
func Move(w *table.Writer, p relay.PlatformID, from, to string, foreign func(relay.TenantID) (map[string]bool, error)) error {
	routes, err := table.List[Record](w.Tx, Bucket, table.Prefix(p, from))
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := w.Delete(Bucket, Key(r)); err != nil {
			return err
		}
		others, err := foreign(r.Tenant)
		if err != nil {
			return err
		}
		free, err := Free(w.Tx, r.Tenant, p, []string{to}, others)
		if err != nil {
			return err
		}
		if r.Key = to; len(free) == 0 || table.Has(w.Tx, Bucket, Key(r)) {
			continue
		}
		if err := w.Put(Bucket, Key(r), r); err != nil {
			return err
		}
	}
	return nil
}
