package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const BucketGateways = "gateways" // gateway -> Gateway

// Gateway is a credential that serves an instance.
type Gateway struct {
	ID          relay.GatewayID  `json:"id"`
	Instance    relay.InstanceID `json:"instance"`
	Tenant      relay.TenantID   `json:"tenant"`
	Secrets     []GatewaySecret  `json:"secrets"`
	DeliveryKey []byte           `json:"deliveryKey"` // sealed
	CreatedAt   time.Time        `json:"created"`
	LastSeenAt  time.Time        `json:"seen,omitzero"` // last hello or last disconnect
	// Newer: it has sent something that gateways of June 2026 never send.
	Newer bool `json:"newer,omitempty"`
	// Fetches: it has used an op that only gateways have that can fetch files, or the media route.
	Fetches bool `json:"fetches,omitempty"`
	// TooOld: it acknowledged an event whose files it could have fetched, fetched none of them, and has never done
	// anything that sets Fetches.
	TooOld bool `json:"tooOld,omitempty"`
	// Provisioned: it asks for its credentials at every start. Of such gateways of one instance only the last few are
	// kept: a container has a new name each time it is made.
	Provisioned bool `json:"provisioned,omitempty"`
	Revoked     bool `json:"revoked,omitempty"`
}

// GatewaySecret is one live secret of a gateway.
type GatewaySecret struct {
	ID        string    `json:"id"` // random; part of the seal's AAD
	Sealed    []byte    `json:"sealed"`
	CreatedAt time.Time `json:"created"`
	// ExpiresAt is when a rotated-out secret dies even if the new one was never used; zero: it does not expire.
	ExpiresAt time.Time `json:"expires,omitzero"`
}

// Enroll creates tenant (if new), instance (if new or revoked) and gateway in one transaction. ErrTooMany: the gateway
// provisions itself, and the tenant has a thousand instances. ErrExists: the gateway id belongs to a gateway that is
// not revoked (a revoked one is replaced), or the instance belongs to another tenant, or another instance was given one
// of the names. An instance that was revoked starts afresh: its record is i, and its lane gets a new epoch; its dead
// letters stay. The gateway's instance and tenant are those of i, and creation times that are zero become now.
//
// With the HMAC of an enrollment token, that token enrolls, once: it is marked as used in the same transaction, and
// stays valid if the transaction fails. The tenant is the token's, and so is the wake URL if i has none. ErrNotFound:
// there is no such token. ErrUsed, ErrExpired: it is no longer valid. ErrForeign: i names another tenant than the
// token's, or the token was made for another gateway or instance.
func (db *DB) Enroll(ctx context.Context, row *audit.Entry, g Gateway, i Instance, token ...[]byte) error {
	now := db.now()
	return db.change(ctx, row, "enroll", func(t *tx) error {
		if len(token) == 0 {
			return t.enroll(g, i, now)
		}
		return t.enrollByToken(g, i, token[0], now)
	})
}

// enrollByToken is Enroll with the token that has the HMAC mac.
func (t *tx) enrollByToken(g Gateway, i Instance, mac []byte, now time.Time) error {
	e, err := table.Must[Code](t.Tx, bucketTokens, mac, "enrollment token")
	if err != nil {
		return err
	}
	switch {
	case i.Tenant != "" && i.Tenant != e.Tenant:
		return fmt.Errorf("enrollment token: of another tenant: %w", ErrForeign)
	case e.Used:
		return fmt.Errorf("enrollment token: %w", ErrUsed)
	case !now.Before(e.ExpiresAt):
		return fmt.Errorf("enrollment token: %w", ErrExpired)
	case e.Gateway != "" && e.Gateway != g.ID:
		return fmt.Errorf("enrollment token: for another gateway: %w", ErrForeign)
	case e.Instance != "" && e.Instance != i.ID:
		return fmt.Errorf("enrollment token: for another instance: %w", ErrForeign)
	}
	i.Tenant, i.WakeURL = e.Tenant, cmp.Or(i.WakeURL, e.WakeURL)
	if err := t.enroll(g, i, now); err != nil {
		return err
	}
	e.Used = true
	return t.Put(bucketTokens, mac, e)
}

// enroll is Enroll without a token. It stores the instance only if it is new or was revoked, and the tenant only if it
// is new.
func (t *tx) enroll(g Gateway, i Instance, now time.Time) error {
	g.Instance, g.Tenant, g.Revoked = i.ID, i.Tenant, false
	g.CreatedAt, i.CreatedAt = cmp.Or(g.CreatedAt, now), cmp.Or(i.CreatedAt, now)
	t.concerns(i.Tenant, i.ID, g.ID)
	old, ok, err := table.Load[Gateway](t.Tx, BucketGateways, table.Key(g.ID))
	if err != nil {
		return err
	}
	if ok && !old.Revoked {
		return fmt.Errorf("gateway %s: %w", g.ID, ErrExists)
	}
	if err := t.checkUnnamed(string(g.ID), i.ID); err != nil {
		return err
	}
	if g.Provisioned && t.crowded(i) {
		return fmt.Errorf("instance %s: %w", i.ID, ErrTooMany)
	}
	if err := t.enrollInstance(i); err != nil {
		return err
	}
	if !table.Has(t.Tx, BucketTenants, table.Key(i.Tenant)) {
		if err := t.Put(BucketTenants, table.Key(i.Tenant), Tenant{ID: i.Tenant, CreatedAt: now}); err != nil {
			return err
		}
	}
	if err := t.Put(BucketGateways, table.Key(g.ID), g); err != nil || !g.Provisioned {
		return err
	}
	return t.pruneProvisioned(i.ID, g.ID)
}

// crowded reports whether i would be a new instance of a tenant that has maxInstances already.
func (t *tx) crowded(i Instance) bool {
	if table.Has(t.Tx, BucketInstances, table.Key(i.ID)) {
		return false
	}
	n := 0
	for _, o := range table.Readable[Instance](t.Tx, BucketInstances) {
		if o.Tenant == i.Tenant {
			n++
		}
	}
	return n >= maxInstances
}

// pruneProvisioned deletes the records of the gateways of i that provisioned themselves, except newest and those that
// were made or seen last.
func (t *tx) pruneProvisioned(i relay.InstanceID, newest relay.GatewayID) error {
	// A damaged record stays, so that it is still reported. newest is left out here because, if the clock is behind,
	// its times may be the oldest.
	all := slices.DeleteFunc(table.Readable[Gateway](t.Tx, BucketGateways), func(g Gateway) bool {
		return g.Instance != i || !g.Provisioned || g.ID == newest
	})
	last := func(g Gateway) time.Time {
		return slices.MaxFunc([]time.Time{g.CreatedAt, g.LastSeenAt}, time.Time.Compare)
	}
	slices.SortStableFunc(all, func(a, b Gateway) int { return last(b).Compare(last(a)) })
	for _, g := range all[min(len(all), maxProvisioned-1):] {
		if err := t.Delete(BucketGateways, table.Key(g.ID)); err != nil {
			return err
		}
	}
	return nil
}

// enrollInstance stores i, if there is no such instance or it was revoked, and opens its lane.
func (t *tx) enrollInstance(i Instance) error {
	old, ok, err := table.Load[Instance](t.Tx, BucketInstances, table.Key(i.ID))
	if err != nil {
		return err
	}
	if ok && old.Tenant != i.Tenant {
		return fmt.Errorf("instance %s: in another tenant: %w", i.ID, ErrExists)
	}
	l, err := t.lane(i.ID)
	if err != nil {
		return err
	}
	if ok && !l.Closed {
		return nil
	}
	if err := t.checkUnnamed(string(i.ID), i.ID); err != nil {
		return err
	}
	if l.Closed {
		l.Closed, l.Epoch = false, newEpoch()
		l.touch()
	}
	return t.Put(BucketInstances, table.Key(i.ID), i)
}

// CameOrWent returns a change for UpdateGateway: the gateway, and with it its instance, came or went at that time;
// woken ends the instance's sleep.
func CameOrWent(at time.Time, woken bool) func(*Gateway, *Instance) error {
	return func(g *Gateway, i *Instance) error {
		g.LastSeenAt, i.LastSeenAt = at, at
		i.Asleep = i.Asleep && !woken
		return nil
	}
}

// Gateways returns the records of those gateways, also after their revocation. With none named it returns all, by id,
// without damaged ones, which were reported when the file was opened. ErrNotFound: one of them was never enrolled.
func (db *DB) Gateways(ctx context.Context, ids ...relay.GatewayID) ([]Gateway, error) {
	return table.Get(ctx, db.records, "gateways", func(t *bolt.Tx) ([]Gateway, error) {
		if len(ids) == 0 {
			return table.Readable[Gateway](t, BucketGateways), nil
		}
		out := make([]Gateway, len(ids))
		for n, id := range ids {
			var err error
			if out[n], err = table.Must[Gateway](t, BucketGateways, table.Key(id), "gateway "+string(id)); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// UpdateGateway runs change on the stored records of a gateway and its instance inside the write transaction, and
// stores the differences. change may run more than once, must not call the database, and prevents the update by
// returning an error, which comes back wrapped. The ids, the instance and the tenant stay the same. ErrNotFound: there
// is no such gateway.
func (db *DB) UpdateGateway(ctx context.Context, row *audit.Entry, id relay.GatewayID, change func(*Gateway, *Instance) error) error {
	return db.change(ctx, row, "update gateway", func(t *tx) error {
		g, err := table.Must[Gateway](t.Tx, BucketGateways, table.Key(id), "gateway "+string(id))
		if err != nil {
			return err
		}
		i, err := table.Must[Instance](t.Tx, BucketInstances, table.Key(g.Instance), "instance "+string(g.Instance))
		if err != nil {
			return err
		}
		inst, tenant := g.Instance, g.Tenant
		if err := change(&g, &i); err != nil {
			return err
		}
		g.ID, g.Instance, g.Tenant, i.ID, i.Tenant = id, inst, tenant, inst, tenant
		return errors.Join(t.PutChanged(BucketGateways, table.Key(id), g), t.PutChanged(BucketInstances, table.Key(inst), i))
	})
}
