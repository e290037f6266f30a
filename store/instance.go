package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Instance is the record of i, also after its revocation. It is shared: nobody changes its lists.
// ErrNotFound: it was never enrolled.
func (db *DB) Instance(ctx context.Context, id relay.InstanceID) (i Instance, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		var known bool
		if i, known = db.instances.find(t.ID(), id); known {
			return nil
		}
		if i, err = must[Instance](t, bucketInstances, key(id), "instance "+string(id)); err == nil {
			db.instances.keep(t.ID(), id, i)
		}
		return err
	})
	return i, err
}

// decodedInstances are those read since any was changed: every event asks for some, and their lists may be long.
type decodedInstances struct {
	mu      sync.Mutex // guards the fields below
	changed int        // the transaction that changed one last
	known   map[relay.InstanceID]Instance
}

// find is the instance as the transaction sees it, if it is known.
func (d *decodedInstances) find(tx int, id relay.InstanceID) (i Instance, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx >= d.changed {
		i, known = d.known[id]
	}
	return i, known
}

// keep notes what the transaction read.
func (d *decodedInstances) keep(tx int, id relay.InstanceID, i Instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx < d.changed {
		return
	}
	if d.known == nil {
		d.known = make(map[relay.InstanceID]Instance)
	}
	d.known[id] = i
}

// forget drops all, for the transaction changes one. Older ones find nothing from now on, whether or not
// it is committed.
func (d *decodedInstances) forget(tx int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed, d.known = tx, nil
}

// Instances lists all instances by id, the revoked ones too.
func (db *DB) Instances(ctx context.Context) (out []Instance, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		out, err = list[Instance](t, bucketInstances, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	return out, nil
}

// UpdateInstance runs change on the stored record inside the write transaction and stores the
// result, if it differs. change may run more than once, must not call the database, and prevents
// the update by returning an error, which comes back wrapped. The id and the tenant stay what
// they are. ErrNotFound: no such instance.
func (db *DB) UpdateInstance(ctx context.Context, id relay.InstanceID, change func(*Instance) error) error {
	err := db.write(ctx, func(t *tx) error {
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
	if err != nil {
		return fmt.Errorf("update instance: %w", err)
	}
	return nil
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
