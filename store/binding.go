package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Bind adds or refreshes a binding. Of one that exists, BoundAt and DMDefault stay and DMChat
// is set when b has one; of a new one, BoundAt is now unless b has one. The tenant is the
// instance's; DMDefault is SetDMDefault's alone to set. ErrNotFound: no such instance, or it was revoked.
func (db *DB) Bind(ctx context.Context, b Binding) error {
	now := db.now()
	if err := db.write(ctx, func(t *tx) error { return t.bind(b, now) }); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

func (t *tx) bind(b Binding, now time.Time) error {
	inst, err := t.liveInstance(b.Instance)
	if err != nil {
		return err
	}
	k := bindingKey(b.Platform, b.User, b.Instance)
	old, ok, err := load[Binding](t.Tx, bucketBindings, k)
	if err != nil {
		return err
	}
	b.Tenant, b.DMDefault = inst.Tenant, old.DMDefault
	switch {
	case ok:
		b.BoundAt = old.BoundAt
	case b.BoundAt.IsZero():
		b.BoundAt = now
	}
	if b.DMChat == "" {
		b.DMChat = old.DMChat
	}
	if !ok {
		to := bindingToKey(b.Platform, b.User, b.Instance)
		if err := t.putSealed(bucketBindingsTo, to, seal(to, k)); err != nil {
			return err
		}
	}
	return t.putChanged(bucketBindings, k, b)
}

func (t *tx) unbind(b Binding) error {
	if err := t.del(bucketBindings, bindingKey(b.Platform, b.User, b.Instance)); err != nil {
		return err
	}
	return t.del(bucketBindingsTo, bindingToKey(b.Platform, b.User, b.Instance))
}

// Unbind removes a binding. What the person said and waits in the instance's lane becomes dead letters
// (DeadUnbound). ErrNotFound: there is none.
func (db *DB) Unbind(ctx context.Context, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	now := db.now()
	err := db.write(ctx, func(t *tx) error {
		if !has(t.Tx, bucketBindings, bindingKey(p, u, i)) {
			return ErrNotFound
		}
		if err := t.unbind(Binding{Platform: p, User: u, Instance: i}); err != nil {
			return err
		}
		return t.buryFrom(i, p, u, now)
	})
	if err != nil {
		return fmt.Errorf("unbind: %w", err)
	}
	return nil
}

// buryFrom moves what a person said out of i's lane.
func (t *tx) buryFrom(i relay.InstanceID, p relay.PlatformID, u relay.UserID, now time.Time) error {
	l, err := t.lane(i)
	if err != nil {
		return err
	}
	for _, k := range keysUnder(t.Tx, bucketEntries, prefix(i)) {
		value := t.Bucket([]byte(bucketEntries)).Get(k)
		e, _, err := decodeEntry(k, value)
		if err != nil || e.About.Bot.Platform != p || e.About.User != u {
			continue // a damaged one is NextDelivery's to handle
		}
		if err := t.bury(i, l, k, value, DeadUnbound, now); err != nil {
			return err
		}
	}
	return nil
}

// BindingsOf lists the bindings of a person, the first made first.
func (db *DB) BindingsOf(ctx context.Context, p relay.PlatformID, u relay.UserID) (out []Binding, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		out, err = list[Binding](t, bucketBindings, prefix(p, string(u)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bindings of a user: %w", err)
	}
	byBoundAt(out)
	return out, nil
}

// BindingsTo lists the bindings to an instance, the first made first.
func (db *DB) BindingsTo(ctx context.Context, i relay.InstanceID) (out []Binding, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		out, err = bindingsTo(t, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bindings to %s: %w", i, err)
	}
	byBoundAt(out)
	return out, nil
}

func bindingsTo(t *bolt.Tx, i relay.InstanceID) ([]Binding, error) {
	var out []Binding
	for k, v := range under(t, bucketBindingsTo, prefix(i)) {
		b, err := pointed(t, k, v)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// pointed is the binding that the row k of the index by instance points to.
func pointed(t *bolt.Tx, k, v []byte) (Binding, error) {
	target, err := unseal(k, v)
	if err != nil {
		return Binding{}, damaged(bucketBindingsTo, k, err)
	}
	b, ok, err := load[Binding](t, bucketBindings, target)
	if err == nil && !ok {
		err = damaged(bucketBindingsTo, k, errors.New("it points nowhere"))
	}
	return b, err
}

func byBoundAt(bs []Binding) {
	slices.SortStableFunc(bs, func(a, b Binding) int {
		return cmp.Or(a.BoundAt.Compare(b.BoundAt), cmp.Compare(a.Instance, b.Instance))
	})
}

// SetDMDefault makes i the one of the user's instances that gets his direct messages. ErrNotFound:
// he is not bound to it.
func (db *DB) SetDMDefault(ctx context.Context, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	err := db.write(ctx, func(t *tx) error {
		bs, err := list[Binding](t.Tx, bucketBindings, prefix(p, string(u)))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(bs, func(b Binding) bool { return b.Instance == i }) {
			return ErrNotFound
		}
		for _, b := range bs {
			b.DMDefault = b.Instance == i
			if err := t.putChanged(bucketBindings, bindingKey(p, u, b.Instance), b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("dm default: %w", err)
	}
	return nil
}
