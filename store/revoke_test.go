package store

import (
	"errors"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// Damage to somebody else's record, or to one of its own, does not keep a gateway alive.
func TestRevocationPassesOverDamage(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2", "i3")
	later := time.Now().Add(time.Hour)
	must.Succeed(t,
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u2", Instance: "i1"}),
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i2"}),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c2", Instance: "i2"}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: LinkCode, Instance: "i2", ExpiresAt: later}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: EnrollCode, Instance: "i2"}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: IdentityCode, Tenant: "home", Instance: "i2"}),
	)
	spoil(t, db, BucketBindings, bindingKey("loop", "u1", "i1"))
	spoil(t, db, table.Index, table.IndexKey(BucketBindings, "instance", "i1", "loop", "u2"))
	spoil(t, db, BucketGrants, grantKey("loop", "", "c2"))
	spoil(t, db, bucketCodes, []byte("mac"))
	spoil(t, db, bucketTokens, []byte("mac"))
	spoil(t, db, bucketIdentity, []byte("mac"))
	spoil(t, db, BucketGateways, table.Key("i3"))

	if _, err := db.Revoke(ctx, nil, "i1"); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	if g, err := Only(db.Gateways(ctx, "i1")); err != nil || !g.Revoked || len(g.Secrets) > 0 {
		t.Errorf("gateway %+v, %v; want it revoked", g, err)
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"}); err != nil || len(bs) != 1 || bs[0].Instance != "i2" {
		t.Errorf("u1 is bound to %+v, %v; want i2 only", bs, err)
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Instance: "i1"}); err != nil || len(bs) > 0 {
		t.Errorf("bound to i1: %+v, %v; want nobody", bs, err)
	}
	if err := db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c1", Instance: "i2"}); err != nil {
		t.Errorf("its chat is not free: %v", err)
	}
	if _, err := db.Grants(ctx, GrantFilter{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("Grants: %v, want the damaged one named", err)
	}
}

// A damaged binding or grant costs that person or chat its way in, not everybody else theirs.
func TestDamagedBindingsAndGrantsAreLeftBehind(t *testing.T) { // invariant 8
	path := t.TempDir() + "/a.db"
	db := reopen(t, path, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	must.Succeed(t,
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u2", Instance: "i1"}),
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u3", Instance: "i1"}),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c2", Instance: "i1"}),
		second(db.Routes.Set(ctx, nil, "i1", "loop", []string{"k1", "k2"})),
	)
	spoil(t, db, BucketBindings, bindingKey("loop", "u1", "i1"))
	spoil(t, db, table.Index, table.IndexKey(BucketBindings, "instance", "i1", "loop", "u2"))
	spoil(t, db, BucketGrants, grantKey("loop", "", "c1"))
	spoil(t, db, bucketRoutes, routeKey(Route{Platform: "loop", Key: "k1", Instance: "i1"}))
	closeChecked(t, db)

	refused(t, path, "and 3 more records")
	db, got := salvaged(t, path, "bucket index")
	if len(got.Unread) != 4 {
		t.Errorf("listed is %q, want four records", got.Unread)
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Instance: "i1"}); err != nil || len(bs) != 2 || bs[0].User != "u2" || bs[1].User != "u3" {
		t.Errorf("bound: %+v, %v; want u2 and u3", bs, err)
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"}); err != nil || len(bs) > 0 {
		t.Errorf("u1 is bound to %+v, %v; want nothing", bs, err)
	}
	if gs, err := db.Grants(ctx, GrantFilter{}); err != nil || len(gs) != 1 || gs[0].Chat != "c2" {
		t.Errorf("grants %+v, %v; want c2's", gs, err)
	}
	if rs, err := db.Routes.List(ctx); err != nil || len(rs) != 1 || rs[0].Key != "k2" {
		t.Errorf("routes %+v, %v; want k2's", rs, err)
	}
	if err := db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}); err != nil {
		t.Errorf("bound again: %v", err)
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Instance: "i1"}); err != nil || len(bs) != 3 {
		t.Errorf("bound again: %d, %v; want 3", len(bs), err)
	}
}
