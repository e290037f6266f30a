package store

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Damage to the record of one agent stops nobody else: no list, no copy, no sweep, no message.
func TestWhoIsWhoIsMadeAnew(t *testing.T) { // invariant 8
	const secret = "https://example.net/wake?token=hush"
	for name, tc := range map[string]struct {
		bucket bucket
		key    []byte
		gone   bool // not damaged, but not there: as when the damage is in its key
		check  func(t *testing.T, db *DB)
	}{
		"tenant": {bucket: bucketTenants, key: key("family")},
		"instance": {bucket: bucketInstances, key: key("kids"), check: func(t *testing.T, db *DB) {
			i, err := db.Instance(ctxOf(t), "kids")
			if err != nil || i.Tenant != "family" || i.Principal.Policy != "" || i.WakeURL != "" {
				t.Errorf("instance %+v, %v; want the tenant's, without policies", i, err)
			}
			if err := db.Enroll(ctxOf(t), Gateway{ID: "evil"}, Instance{ID: "kids", Tenant: "evil"}); !errors.Is(err, ErrExists) {
				t.Errorf("another tenant takes the name: %v", err)
			}
		}},
		"instance that is not there": {bucket: bucketInstances, key: key("kids"), gone: true, check: func(t *testing.T, db *DB) {
			if i, err := db.Instance(ctxOf(t), "kids"); err != nil || i.Tenant != "family" {
				t.Errorf("instance %+v, %v; want it back", i, err)
			}
		}},
		"gateway": {bucket: bucketGateways, key: key("kids"), check: func(t *testing.T, db *DB) {
			g, err := db.Gateway(ctxOf(t), "kids")
			if err != nil || !g.Revoked || len(g.Secrets) > 0 || g.Instance != "kids" || g.Tenant != "family" {
				t.Errorf("gateway %+v, %v; want it revoked", g, err)
			}
			if err := db.Enroll(ctxOf(t), Gateway{ID: "kids"}, Instance{ID: "kids", Tenant: "evil"}); !errors.Is(err, ErrExists) {
				t.Errorf("another tenant takes the name: %v", err)
			}
			if err := db.Enroll(ctxOf(t), Gateway{ID: "kids"}, Instance{ID: "kids", Tenant: "family"}); err != nil {
				t.Errorf("enrolled again: %v", err)
			}
		}},
		"gateway of an instance of another name": {bucket: bucketGateways, key: key("box"), check: func(t *testing.T, db *DB) {
			if g, err := db.Gateway(ctxOf(t), "box"); err != nil || !g.Revoked {
				t.Errorf("gateway %+v, %v; want it revoked", g, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/a.db"
			db := reopen(t, path, Options{})
			ctx := ctxOf(t)
			enroll(t, db, "home")
			kids := Instance{ID: "kids", Tenant: "family", WakeURL: secret, Principal: Principal{Policy: relay.AnyOne}}
			for _, err := range []error{
				db.Enroll(ctx, Gateway{ID: "kids", Secrets: []GatewaySecret{{ID: "s", Sealed: []byte("s")}}}, kids),
				db.Enroll(ctx, Gateway{ID: "box"}, kids),
				db.Bind(ctx, Binding{Platform: "loop", User: "bob", Instance: "kids"}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			acceptOne(t, db, event("waits", 300), "kids")
			if tc.gone {
				if err := db.write(ctx, func(x *tx) error { return x.del(tc.bucket, tc.key) }); err != nil {
					t.Fatal(err)
				}
			} else {
				spoil(t, db, tc.bucket, tc.key)
			}
			closeChecked(t, db)

			var text bytes.Buffer
			db = reopen(t, path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
			if db.Stats().Damaged != 1 || !strings.Contains(text.String(), "made anew") || strings.Contains(text.String(), secret) {
				t.Errorf("%d damaged, want 1; the log: %s", db.Stats().Damaged, &text)
			}
			if tc.check != nil {
				tc.check(t, db)
			}
			if bs, err := db.BindingsTo(ctx, "kids"); err != nil || len(bs) != 1 {
				t.Errorf("bound: %+v, %v; want bob", bs, err)
			}
			if _, ok, err := db.NextDelivery(ctx, "kids", 0); err != nil || !ok {
				t.Errorf("its message: %v, %v; want it there", ok, err)
			}
			for what, err := range map[string]error{
				"tenants":   second(db.Tenants(ctx)),
				"instances": second(db.Instances(ctx)),
				"gateways":  second(db.Gateways(ctx)),
				"manifests": second(db.Manifests(ctx, "loop")),
				"sweep":     second(db.Sweep(ctx)),
				"backup":    second(db.Backup(ctx, io.Discard)),
				"revoke":    second(db.Revoke(ctx, "home")),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if q, err := db.Quarantine(ctx); err != nil || len(q) == 0 != tc.gone {
				t.Errorf("%d in quarantine, %v", len(q), err)
			}
			closeChecked(t, db)
			if db = reopen(t, path, Options{}); db.Stats().Damaged != 0 {
				t.Errorf("%d damaged at the start after, want 0", db.Stats().Damaged)
			}
		})
	}
}

// What nobody else knows of stays, refused: made up, it would be free for others.
func TestAnInstanceNobodyKnowsStays(t *testing.T) { // invariant 8
	path := t.TempDir() + "/a.db"
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	spoil(t, db, bucketInstances, key("i1"))
	spoil(t, db, bucketGateways, key("i1"))
	closeChecked(t, db)
	db = reopen(t, path, Options{})
	if _, err := db.Instance(ctxOf(t), "i1"); !errors.Is(err, ErrDamaged) {
		t.Errorf("instance: %v, want it refused", err)
	}
	if err := db.Enroll(ctxOf(t), Gateway{ID: "i1"}, Instance{ID: "i1", Tenant: relay.TenantID("evil")}); !errors.Is(err, ErrDamaged) {
		t.Errorf("enrolled by another tenant: %v, want it refused", err)
	}
}
