package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

type (
	// Grant says: this chat belongs to that instance.
	Grant = grant.Record
	// GrantFilter picks grants.
	GrantFilter = grant.Filter
)

// Claim stores a grant; its tenant is the instance's, its time is now unless g has one. The same
// instance again: nil, and nothing changes. ErrHeld: another instance holds the chat, or the
// whole scope it lies in, or (when g is a whole scope) any chat in it. ErrNotFound: no such
// instance, or it was revoked. A grant must name a scope, a chat, or both.
func (db *DB) Claim(ctx context.Context, row *audit.Entry, g Grant, own ...Own) error {
	if g.Scope == "" && g.Chat == "" {
		return errors.New("claim: neither a scope nor a chat is named")
	}
	g.GrantedAt = cmp.Or(g.GrantedAt, db.now())
	return db.change(ctx, row, "claim", func(t *tx) error {
		inst, err := t.liveInstance(g.Instance)
		if err != nil {
			return err
		}
		mine, err := grant.Claimable(t.Tx, g)
		if err != nil || mine {
			return err
		}
		g := g // the op may run again
		g.Tenant = inst.Tenant
		for _, o := range own {
			if err := t.unreserved(g, o.Parent); err != nil {
				return err
			}
		}
		return table.PutIndexed(t.Writer, g)
	})
}

// Own makes a claim one of the instance itself, which may not override what others hold or reserved. ErrHeld
// also: another instance holds the parent, and so its threads. ErrReserved: a route of another tenant names the
// grant's chat, its parent or its scope.
type Own struct {
	Parent relay.ChatID // the chat that the grant's is a thread of, or empty
}

// unreserved is nil when g, whose chat is a thread of parent, may be an instance's own claim.
func (t *tx) unreserved(g Grant, parent relay.ChatID) error {
	if parent != "" {
		above, ok, err := table.Load[Grant](t.Tx, grant.Bucket, grant.Key(g.Platform, g.Scope, parent))
		if err != nil {
			return err
		}
		if ok && above.Instance != g.Instance {
			return ErrHeld
		}
	}
	for _, k := range []string{string(g.Chat), string(parent), string(g.Scope)} {
		if k == "" {
			continue
		}
		if taken, err := route.Reserved(t.Tx, g.Tenant, g.Platform, k); err != nil {
			return err
		} else if taken {
			return ErrReserved
		}
	}
	return nil
}

// Release removes a grant. ErrNotFound: i holds no such grant.
func (db *DB) Release(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, s relay.ScopeID, c relay.ChatID) error {
	k := grant.Key(p, s, c)
	return db.change(ctx, row, "release", func(t *tx) error {
		g, ok, err := table.Load[Grant](t.Tx, grant.Bucket, k)
		if err != nil {
			return err
		}
		if !ok || g.Instance != i {
			return ErrNotFound
		}
		return table.DeleteIndexed(t.Writer, g)
	})
}

// Grants is grant.List.
func (db *DB) Grants(ctx context.Context, f GrantFilter) ([]Grant, error) {
	return get(ctx, db, "grants", func(t *bolt.Tx) ([]Grant, error) { return grant.List(t, f) })
}
