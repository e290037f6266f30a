package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Instance is the record of i, also after its revocation. ErrNotFound: it was never enrolled.
func (db *DB) Instance(ctx context.Context, id relay.InstanceID) (Instance, error) {
	return get(ctx, db, "instance "+string(id), func(t *bolt.Tx) (Instance, error) { return found[Instance](t, bucketInstances, key(id)) })
}

// Instances lists all instances by id, the revoked ones too.
func (db *DB) Instances(ctx context.Context) ([]Instance, error) {
	return get(ctx, db, "instances", func(t *bolt.Tx) ([]Instance, error) { return list[Instance](t, bucketInstances, nil) })
}

// UpdateInstance runs change on the stored record inside the write transaction and stores the
// result, if it differs. change may run more than once, must not call the database, and prevents
// the update by returning an error, which comes back wrapped. The id and the tenant stay what
// they are. ErrNotFound: no such instance.
func (db *DB) UpdateInstance(ctx context.Context, id relay.InstanceID, change func(*Instance) error) error {
	return db.change(ctx, "update instance", func(t *tx) error {
		i, err := must[Instance](t.Tx, bucketInstances, key(id), "instance "+string(id))
		if err != nil {
			return err
		}
		tenant := i.Tenant
		if err := change(&i); err != nil {
			return err
		}
		i.ID, i.Tenant = id, tenant
		return t.putChanged(bucketInstances, key(id), i)
	})
}

// live is the lane of an instance that is enrolled and not revoked; otherwise ErrNotFound.
// Nothing is given to any other.
func (t *tx) live(i relay.InstanceID) (*lane, error) {
	if !has(t.Tx, bucketInstances, key(i)) {
		return nil, fmt.Errorf("instance %s: %w", i, ErrNotFound)
	}
	l, err := t.lane(i)
	if err == nil && l.Closed {
		err = fmt.Errorf("instance %s: revoked: %w", i, ErrNotFound)
	}
	return l, err
}

// liveInstance is the record of an instance that is enrolled and not revoked; otherwise ErrNotFound.
func (t *tx) liveInstance(i relay.InstanceID) (Instance, error) {
	if _, err := t.live(i); err != nil {
		return Instance{}, err
	}
	return must[Instance](t.Tx, bucketInstances, key(i), "instance "+string(i))
}
