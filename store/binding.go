package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

type (
	// Binding says: this person's messages go to that instance.
	Binding = binding.Record
	// BindingFilter picks bindings.
	BindingFilter = binding.Filter
)

// Bind adds or refreshes a binding. Of one that exists, BoundAt and DMDefault stay and DMChat
// is set when b has one; of a new one, BoundAt is now unless b has one. The tenant is the
// instance's; DMDefault is SetDMDefault's alone to set. ErrNotFound: no such instance, or it was revoked.
func (db *DB) Bind(ctx context.Context, row *audit.Entry, b Binding) error {
	now := db.now()
	return db.change(ctx, row, "bind", func(t *tx) error { return t.bind(b, now) })
}

func (t *tx) bind(b Binding, now time.Time) error {
	inst, err := t.liveInstance(b.Instance)
	if err != nil {
		return err
	}
	old, ok, err := table.Load[Binding](t.Tx, binding.Bucket, binding.Key(b.Platform, b.User, b.Instance))
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
	b.DMChat = cmp.Or(b.DMChat, old.DMChat)
	return table.PutIndexed(t.Writer, b)
}

// Unbind removes a binding. What the person said and waits in the instance's lane becomes dead letters
// (DeadUnbound). ErrNotFound: there is none.
func (db *DB) Unbind(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	now := db.now()
	return db.change(ctx, row, "unbind", func(t *tx) error {
		if !table.Has(t.Tx, binding.Bucket, binding.Key(p, u, i)) {
			return ErrNotFound
		}
		if err := t.dropAll(loaded[Binding], binding.Bucket, binding.Key(p, u, i)); err != nil {
			return err
		}
		return t.buryWhere(i, DeadUnbound, now, func(e About) bool { return e.Bot.Platform == p && e.User == u })
	})
}

// Bindings is binding.List.
func (db *DB) Bindings(ctx context.Context, f BindingFilter) ([]Binding, error) {
	return get(ctx, db, "bindings", func(t *bolt.Tx) ([]Binding, error) { return binding.List(t, f) })
}

// SetDMDefault makes i the one of the user's instances that gets his direct messages. ErrNotFound:
// he is not bound to it.
func (db *DB) SetDMDefault(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	return db.change(ctx, row, "dm default", func(t *tx) error {
		bs, err := table.List[Binding](t.Tx, binding.Bucket, table.Prefix(p, string(u)))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(bs, func(b Binding) bool { return b.Instance == i }) {
			return ErrNotFound
		}
		for _, b := range bs {
			b.DMDefault = b.Instance == i
			if err := table.PutIndexed(t.Writer, b); err != nil {
				return err
			}
		}
		return nil
	})
}
