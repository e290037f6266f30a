package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Enroll creates tenant (if new), instance (if new or revoked) and gateway in one transaction.
// ErrExists: the gateway id belongs to a gateway that is not revoked (a revoked one is
// replaced), or the instance belongs to another tenant. An instance that was revoked starts
// afresh: the record is i's, and its lane gets a new epoch; its dead letters stay. The
// gateway's instance and tenant are taken from i, creation times that are zero are set.
func (db *DB) Enroll(ctx context.Context, g Gateway, i Instance) error {
	now := db.now()
	g.Instance, g.Tenant, g.Revoked = i.ID, i.Tenant, false
	if g.CreatedAt.IsZero() {
		g.CreatedAt = now
	}
	if i.CreatedAt.IsZero() {
		i.CreatedAt = now
	}
	err := db.write(ctx, func(t *tx) error {
		old, ok, err := load[Gateway](t.Tx, bucketGateways, key(g.ID))
		if err != nil {
			return err
		}
		if ok && !old.Revoked {
			return fmt.Errorf("gateway %s: %w", g.ID, ErrExists)
		}
		if err := t.enrollInstance(i); err != nil {
			return err
		}
		if !has(t.Tx, bucketTenants, key(i.Tenant)) {
			if err := t.put(bucketTenants, key(i.Tenant), Tenant{ID: i.Tenant, CreatedAt: now}); err != nil {
				return err
			}
		}
		return t.put(bucketGateways, key(g.ID), g)
	})
	if err != nil {
		return fmt.Errorf("enroll: %w", err)
	}
	return nil
}

func (t *tx) enrollInstance(i Instance) error {
	old, ok, err := load[Instance](t.Tx, bucketInstances, key(i.ID))
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
	if l.Closed {
		l.Closed, l.Epoch = false, newEpoch()
		t.touch(i.ID, l)
	}
	return t.put(bucketInstances, key(i.ID), i)
}

// Gateway is the record of id, also after its revocation. ErrNotFound: it was never enrolled.
func (db *DB) Gateway(ctx context.Context, id relay.GatewayID) (g Gateway, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		g, err = must[Gateway](t, bucketGateways, key(id), "gateway "+string(id))
		return err
	})
	return g, err
}

// Gateways lists all gateways by id, the revoked ones too.
func (db *DB) Gateways(ctx context.Context) (out []Gateway, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		out, err = list[Gateway](t, bucketGateways, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("gateways: %w", err)
	}
	return out, nil
}

// UpdateGateway runs change on the stored record inside the write transaction and stores the
// result, if it differs. change may run more than once, must not call the database, and prevents
// the update by returning an error, which comes back wrapped. The id, the instance and the
// tenant stay what they are. ErrNotFound: no such gateway.
func (db *DB) UpdateGateway(ctx context.Context, id relay.GatewayID, change func(*Gateway) error) error {
	err := db.write(ctx, func(t *tx) error {
		g, err := must[Gateway](t.Tx, bucketGateways, key(id), "gateway "+string(id))
		if err != nil {
			return err
		}
		old := g
		if err := change(&g); err != nil {
			return err
		}
		g.ID, g.Instance, g.Tenant = id, old.Instance, old.Tenant
		return t.putChanged(bucketGateways, key(id), g)
	})
	if err != nil {
		return fmt.Errorf("update gateway: %w", err)
	}
	return nil
}

// Revoke marks the gateway revoked and drops its secrets and delivery key. If no other live
// gateway serves its instance, it drops the instance's bindings, grants, conversations and link
// codes, moves its lane to the dead letters (DeadRemoved) and closes it, all in one transaction.
// It returns the instance. Revoked before: the same answer. ErrNotFound: no such gateway.
func (db *DB) Revoke(ctx context.Context, id relay.GatewayID) (relay.InstanceID, error) {
	now := db.now()
	var inst relay.InstanceID
	err := db.write(ctx, func(t *tx) error {
		g, err := must[Gateway](t.Tx, bucketGateways, key(id), "gateway "+string(id))
		if err != nil {
			return err
		}
		inst = g.Instance
		if g.Revoked {
			return nil
		}
		g.Revoked, g.Secrets, g.DeliveryKey = true, nil, nil
		if err := t.put(bucketGateways, key(id), g); err != nil {
			return err
		}
		all, err := list[Gateway](t.Tx, bucketGateways, nil)
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.Instance == inst && !other.Revoked {
				return nil
			}
		}
		return t.strip(inst, now)
	})
	if err != nil {
		return "", fmt.Errorf("revoke: %w", err)
	}
	return inst, nil
}
