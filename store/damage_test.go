package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// spoil flips a bit in the stored record under k.
func spoil(t *testing.T, db *DB, b bucket, k []byte) {
	t.Helper()
	err := db.write(ctxOf(t), func(x *tx) error {
		v := append([]byte(nil), x.Bucket([]byte(b)).Get(k)...)
		if len(v) == 0 {
			return errors.New("there is no such record")
		}
		v[len(v)/2] ^= 4
		return x.putSealed(b, k, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRecordIsNamed(t *testing.T) { // invariant 8
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	for _, err := range []error{
		db.Bind(ctx, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		db.Claim(ctx, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}),
		db.PutLinkCode(ctx, []byte("mac"), LinkCode{Instance: "i1", ExpiresAt: time.Now().Add(time.Hour)}),
		db.PutEnrollmentToken(ctx, []byte("mac"), EnrollmentToken{}),
		db.PutIdentityCode(ctx, []byte("mac"), IdentityCode{Tenant: "home", Instance: "i1"}),
		second(db.SetRoutes(ctx, "i1", "loop", []string{"k"})),
		db.PutBlob(ctx, "blob", []byte("value")),
		second(db.Accept(ctx, Accept{Bot: bot, Cursor: []byte("9")})),
		db.Claim(ctx, Grant{Platform: "loop", Chat: "c8", Instance: "i1"}),
		db.MoveChat(ctx, Move{Platform: "loop", From: "c8", To: "c9"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	acceptOne(t, db, event("e1", 300), "i1")
	chat := relay.Chat{Bot: bot, ID: "c1"}
	for _, tc := range []struct {
		b    bucket
		k    []byte
		read func() error
	}{
		{bucketCursors, botKey(bot), func() error { return second(db.Cursor(ctx, bot)) }},
		{bucketBlobs, key("blob"), func() error { _, _, err := db.Blob(ctx, "blob"); return err }},
		{bucketTokens, []byte("mac"), func() error { return second(db.EnrollmentToken(ctx, []byte("mac"))) }},
		{bucketCodes, []byte("mac"), func() error {
			return second(db.RedeemLinkCode(ctx, []byte("mac"), Person{"loop", "u1"}, ""))
		}},
		{bucketConversations, conversationKey(Conversation{Instance: "i1", Bot: bot, Chat: "c1"}), func() error {
			_, _, err := db.Conversation(ctx, "i1", chat)
			return err
		}},
		{bucketMoved, movedKey("loop", "c8"), func() error { return second(db.CurrentChat(ctx, "loop", "c8")) }},
		{bucketIdentity, []byte("mac"), func() error { return second(db.IdentityCode(ctx, []byte("mac"))) }},
		{bucketRoutes, routeKey(Route{Platform: "loop", Key: "k", Instance: "i1"}), func() error { return second(db.Routes(ctx)) }},
		{bucketGrants, grantKey("loop", "", "c1"), func() error {
			_, _, err := db.GrantCovering(ctx, relay.Place{Platform: "loop", Chat: "c1"})
			return err
		}},
		{bucketBindingsTo, bindingToKey("loop", "u1", "i1"), func() error { return second(db.BindingsTo(ctx, "i1")) }},
		{bucketBindings, bindingKey("loop", "u1", "i1"), func() error { return second(db.BindingsOf(ctx, "loop", "u1")) }},
		{bucketTenants, key("home"), func() error { return second(db.Tenants(ctx)) }},
		{bucketGateways, key("i1"), func() error { return second(db.Gateway(ctx, "i1")) }},
		{bucketInstances, key("i1"), func() error { return second(db.Instance(ctx, "i1")) }},
		{bucketLanes, key("i1"), func() error { _, _, err := db.NextDelivery(ctx, "i1", 0); return err }},
	} {
		if err := tc.read(); err != nil && tc.b != bucketTokens {
			t.Errorf("%s: %v before it was damaged", tc.b, err)
		}
		spoil(t, db, tc.b, tc.k)
		err := tc.read()
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), string(tc.b)) {
			t.Errorf("%s: %v, want ErrDamaged with its name", tc.b, err)
		}
	}
	if db.Err() != nil {
		t.Errorf("a damaged record ended the database: %v", db.Err())
	}
}

func TestDamagedEntryIsSetAside(t *testing.T) { // invariants 5 and 8
	for name, touch := range map[string]func(db *DB, b relay.BufferID) error{
		"by the pump": func(db *DB, _ relay.BufferID) error {
			e, ok, err := db.NextDelivery(t.Context(), "i1", 0)
			if ok && e.About.ID != "e2" {
				return errors.New("next is " + string(e.About.ID) + ", want e2")
			}
			return err
		},
		"by a death": func(db *DB, b relay.BufferID) error { return second(db.RecordDeath(t.Context(), "i1", b)) },
		"by burial":  func(db *DB, b relay.BufferID) error { return db.Bury(t.Context(), "i1", b, DeadPoison) },
		"by overflow": func(db *DB, _ relay.BufferID) error {
			return second(db.Accept(t.Context(), acceptFor(event("e3", 300), "i1")))
		},
		"by revocation": func(db *DB, _ relay.BufferID) error { return second(db.Revoke(t.Context(), "i1")) },
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{Limits: Limits{MaxEntries: 2}})
			enroll(t, db, "i1")
			b := acceptOne(t, db, event("e1", 300), "i1").Buffers[0]
			acceptOne(t, db, event("e2", 300), "i1")
			spoil(t, db, bucketEntries, entryKey("i1", b.Seq))
			if err := touch(db, b); err != nil {
				t.Fatal(err)
			}
			q, err := db.Quarantine(ctxOf(t))
			if err != nil || len(q) != 1 || !strings.Contains(q[0].Err, b.String()) || !strings.Contains(q[0].Err, "i1") || len(q[0].Raw) < 300 {
				t.Errorf("%d in quarantine, %v; want the damaged entry, named", len(q), err)
			}
			if strings.Contains(deadOf(t, db, "i1"), "e1") {
				t.Error("it is a dead letter too")
			}
		})
	}
}

func TestSweepGoesOnPastDamage(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	for _, mac := range []string{"a", "b", "c"} {
		if err := db.PutLinkCode(ctx, []byte(mac), LinkCode{Instance: "i1", ExpiresAt: c.now()}); err != nil {
			t.Fatal(err)
		}
	}
	spoil(t, db, bucketCodes, []byte("b"))
	c.add(2 * day)
	got, err := db.Sweep(ctx)
	if got.Codes != 2 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("swept %+v, %v; want two codes, and b named", got, err)
	}
}

// damagedFile is a file with two instances, each with a gateway, a binding, a grant and a message,
// in which the record under k of b is damaged: its value, or its key.
func damagedFile(t *testing.T, b bucket, k []byte, inKey bool) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	ctx := ctxOf(t)
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		enroll(t, db, i)
		for _, err := range []error{
			db.Bind(ctx, Binding{Tenant: relay.DefaultTenant, Platform: "loop", User: "u" + relay.UserID(i), Instance: i}),
			db.Claim(ctx, Grant{Tenant: relay.DefaultTenant, Platform: "loop", Chat: "c" + relay.ChatID(i), Instance: i}),
			db.PutBlob(ctx, "vault", []byte("wrapped key")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		acceptOne(t, db, event("for "+string(i), 300), i)
	}
	err := db.write(ctx, func(x *tx) error {
		v := slices.Clone(x.Bucket([]byte(b)).Get(k))
		if inKey {
			if err := x.del(b, k); err != nil {
				return err
			}
			k = append(slices.Clone(k[:len(k)-1]), k[len(k)-1]^1)
		} else {
			v[len(v)/2] ^= 4
		}
		return x.putSealed(b, k, v)
	})
	if err != nil {
		t.Fatal(err)
	}
	closeChecked(t, db)
	return path
}

// TestDamageStaysWithItsOwn: a damaged record of one instance or gateway leaves the others as they are.
func TestDamageStaysWithItsOwn(t *testing.T) { // invariant 8
	for _, tc := range []struct {
		b     bucket
		k     []byte
		inKey bool
	}{
		{bucketInstances, key("i1"), false}, {bucketInstances, key("i1"), true},
		{bucketTenants, key(relay.DefaultTenant), false}, {bucketTenants, key(relay.DefaultTenant), true},
		{bucketGateways, key("i1"), false}, {bucketMeta, []byte(digestKey), true},
	} {
		t.Run(fmt.Sprintf("%s %q %v", tc.b, tc.k, tc.inKey), func(t *testing.T) {
			var text strings.Builder
			path := damagedFile(t, tc.b, tc.k, tc.inKey)
			db := reopen(t, path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
			ctx := ctxOf(t)
			if !strings.Contains(text.String(), "bucket "+string(tc.b)) {
				t.Errorf("the log does not name it: %s", &text)
			}
			for _, i := range []relay.InstanceID{"i1", "i2"} {
				acceptOne(t, db, event("more for "+string(i), 300), i)
				if got, want := laneOf(t, db, i), "[for "+string(i)+" more for "+string(i)+"]"; got != want {
					t.Errorf("lane of %s: %s, want %s", i, got, want)
				}
				if got, err := db.Instance(ctx, i); err != nil || got.Tenant != relay.DefaultTenant || got.ID != i {
					t.Errorf("instance %s: %+v, %v", i, got, err)
				}
			}
			_, err1 := db.Instances(ctx)
			_, err2 := db.Tenants(ctx)
			_, err3 := db.Gateways(ctx)
			_, err4 := db.Revoke(ctx, "i2")
			if err := errors.Join(err1, err2, err3, err4); err != nil {
				t.Error(err)
			}
			if tc.b != bucketGateways {
				if _, err := db.Backup(ctx, io.Discard); err != nil {
					t.Error(err)
				}
				return
			}
			if g, err := db.Gateway(ctx, "i1"); err != nil || !g.Revoked {
				t.Errorf("the damaged gateway: %+v, %v, want a revoked one", g, err)
			}
			enroll(t, db, "i1")
			if got := laneOf(t, db, "i1"); got != "[for i1 more for i1]" {
				t.Errorf("lane after a new enrollment: %s", got)
			}
			if bound, err := db.BindingsTo(ctx, "i1"); err != nil || len(bound) != 1 {
				t.Errorf("bindings after a new enrollment: %v, %v", bound, err)
			}
			if _, err := db.Backup(ctx, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestARecordDamagedInItsKeyAlone is whole, and says where it belongs.
func TestARecordDamagedInItsKeyAlone(t *testing.T) { // invariant 8
	for _, tc := range []struct {
		b bucket
		k []byte
	}{
		{bucketTenants, key(relay.DefaultTenant)}, {bucketInstances, key("i1")}, {bucketGateways, key("i1")},
		{bucketBindings, bindingKey("loop", "ui1", "i1")}, {bucketGrants, grantKey("loop", "", "ci1")},
	} {
		t.Run(string(tc.b), func(t *testing.T) {
			path := damagedFile(t, tc.b, tc.k, true)
			var text strings.Builder
			db := reopen(t, path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
			ctx := ctxOf(t)
			if n := db.Stats().Damaged; n != 1 || !strings.Contains(text.String(), "put back under") {
				t.Errorf("%d damaged, want 1; the log: %s", n, &text)
			}
			if g, err := db.Gateway(ctx, "i1"); err != nil || g.Revoked || len(g.Secrets) != 1 {
				t.Errorf("gateway %+v, %v; want it with its secret", g, err)
			}
			if i, err := db.Instance(ctx, "i1"); err != nil || i.ID != "i1" {
				t.Errorf("instance %+v, %v", i, err)
			}
			if bound, err := db.BindingsOf(ctx, "loop", "ui1"); err != nil || len(bound) != 1 {
				t.Errorf("bindings of the user: %+v, %v", bound, err)
			}
			if bound, err := db.BindingsTo(ctx, "i1"); err != nil || len(bound) != 1 {
				t.Errorf("bindings to the instance: %+v, %v", bound, err)
			}
			if all, err := db.Grants(ctx); err != nil || len(all) != 2 {
				t.Errorf("grants %+v, %v", all, err)
			}
			if all, err := db.Tenants(ctx); err != nil || len(all) != 1 {
				t.Errorf("tenants %+v, %v", all, err)
			}
			if all, err := db.Gateways(ctx); err != nil || len(all) != 2 {
				t.Errorf("gateways %+v, %v", all, err)
			}
			if q, err := db.Quarantine(ctx); err != nil || len(q) != 1 {
				t.Errorf("%d in quarantine, %v; want what was damaged", len(q), err)
			}
			closeChecked(t, db)
			if db = reopen(t, path, Options{}); db.Stats().Damaged != 0 {
				t.Errorf("%d damaged at the start after, want 0", db.Stats().Damaged)
			}
		})
	}
}

// TestDamagedBlobIsNotReplaced: the vault would make a new key, and leave every secret unreadable.
func TestDamagedBlobIsNotReplaced(t *testing.T) {
	for _, inKey := range []bool{false, true} {
		db := reopen(t, damagedFile(t, bucketBlobs, key("vault"), inKey), Options{})
		if _, _, err := db.Blob(ctxOf(t), "vault"); !errors.Is(err, ErrDamaged) {
			t.Errorf("damaged in its key %v: %v, want ErrDamaged", inKey, err)
		}
	}
}

// TestLossIsNotedInTheQuarantine: the log of one start is not where an operator looks a week later.
func TestLossIsNotedInTheQuarantine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	err := db.write(ctxOf(t), func(x *tx) error {
		x.writes++
		return x.Bucket([]byte(bucketEntries)).Delete(entryKey("i1", 1)) // as if a page were gone
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := reopen(t, path, Options{}).Quarantine(ctxOf(t))
	if err != nil || len(all) != 2 {
		t.Fatalf("quarantine %+v, %v, want a note of the lane and one of the records", all, err)
	}
	if !strings.Contains(all[0].Err, "lane of i1 held 0 messages") || !strings.Contains(all[1].Err, "not those of the newest commit") {
		t.Errorf("quarantine %+v", all)
	}
}
