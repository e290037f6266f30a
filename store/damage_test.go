package store

import (
	"bytes"
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
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// spoil flips a bit in the stored record under k.
func spoil(t *testing.T, db *DB, b string, k []byte) {
	t.Helper()
	err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
		v := append([]byte(nil), x.Bucket([]byte(b)).Get(k)...)
		if len(v) == 0 {
			return errors.New("there is no such record")
		}
		v[len(v)/2] ^= 4
		return x.PutSealed(b, k, v)
	})
	must.Succeed(t, err)
	if err := db.PutBlob(ctxOf(t), "after the damage", nil); err != nil { // or an Open would fall back to before it
		t.Fatal(err)
	}
}

func TestDamagedRecordIsNamed(t *testing.T) { // invariant 8
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	must.Succeed(t,
		db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: LinkCode, Instance: "i1", ExpiresAt: time.Now().Add(time.Hour)}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: EnrollCode}),
		db.Codes.Put(ctx, nil, []byte("mac"), Code{Kind: IdentityCode, Tenant: "home", Instance: "i1"}),
		second(db.Routes.Set(ctx, nil, "i1", "loop", []string{"k"})),
		db.PutBlob(ctx, "blob", []byte("value")),
		second(db.Accept(ctx, Accept{Bot: bot, Cursor: []byte("9")})),
		db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c8", Instance: "i1"}),
		db.MoveChat(ctx, Move{Platform: "loop", From: "c8", To: "c9"}),
	)
	acceptOne(t, db, event("e1", 300), "i1")
	chat := relay.Chat{Bot: bot, ID: "c1"}
	for _, tc := range []struct {
		b    string
		k    []byte
		read func() error
	}{
		{BucketCursors, botKey(bot), func() error { return second(db.Cursor(ctx, bot)) }},
		{bucketBlobs, table.Key("blob"), func() error { _, _, err := db.Blob(ctx, "blob"); return err }},
		{bucketTokens, []byte("mac"), func() error { return second(db.Codes.Get(ctx, EnrollCode, []byte("mac"))) }},
		{bucketCodes, []byte("mac"), func() error {
			return second(db.Codes.Redeem(ctx, nil, []byte("mac"), Person{"loop", "u1"}, ""))
		}},
		{bucketConversations, conversationKey(Conversation{Instance: "i1", Bot: bot, Chat: "c1"}), func() error {
			_, _, err := First(db.Conversations(ctx, ConversationFilter{Instance: "i1", Chat: chat}))
			return err
		}},
		{BucketMoves, moveKey("loop", "c8"), func() error { return second(db.CurrentChat(ctx, "loop", "c8")) }},
		{bucketIdentity, []byte("mac"), func() error { return second(db.Codes.Get(ctx, IdentityCode, []byte("mac"))) }},
		{bucketRoutes, routeKey(Route{Platform: "loop", Key: "k", Instance: "i1"}), func() error { return second(db.Routes.List(ctx)) }},
		{BucketGrants, grantKey("loop", "", "c1"), func() error {
			_, _, err := First(db.Grants(ctx, GrantFilter{Covering: &relay.Place{Platform: "loop", Chat: "c1"}}))
			return err
		}},
		{table.Index, table.IndexKey(BucketBindings, "instance", "i1", "loop", "u1"), func() error { return second(db.Bindings(ctx, BindingFilter{Instance: "i1"})) }},
		{BucketBindings, bindingKey("loop", "u1", "i1"), func() error { return second(db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"})) }},
		{BucketTenants, table.Key("home"), func() error { return second(tenantsOf(db)) }},
		{BucketGateways, table.Key("i1"), func() error { return second(db.Gateways(ctx, "i1")) }},
		{BucketInstances, table.Key("i1"), func() error { return second(db.Instances(ctx, "i1")) }},
		{bucketLanes, table.Key("i1"), func() error { return second(db.Lanes.State(ctx, "i1")) }},
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
	if db.records.File.Err() != nil {
		t.Errorf("a damaged record ended the database: %v", db.records.File.Err())
	}
}

func TestDamagedEntryIsSetAside(t *testing.T) { // invariants 5 and 8
	t.Parallel()
	for name, touch := range map[string]func(db *DB, b relay.BufferID) error{
		"by the pump": func(db *DB, _ relay.BufferID) error {
			e, ok, err := db.Lanes.Next(t.Context(), "i1", 0)
			if ok && e.About.ID != "e2" {
				return errors.New("next is " + string(e.About.ID) + ", want e2")
			}
			return err
		},
		"by a death": func(db *DB, b relay.BufferID) error { return second(db.Lanes.Died(t.Context(), "i1", b)) },
		"by burial":  func(db *DB, b relay.BufferID) error { return db.Lanes.Bury(t.Context(), "i1", b, DeadPoison) },
		"by overflow": func(db *DB, _ relay.BufferID) error {
			return second(db.Accept(t.Context(), acceptFor(event("e3", 300), "i1")))
		},
		"by revocation": func(db *DB, _ relay.BufferID) error { return second(db.Revoke(t.Context(), nil, "i1", "i1")) },
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{Limits: Limits{MaxEntries: 2}})
			enroll(t, db, "i1")
			b := acceptOne(t, db, event("e1", 300), "i1").Buffers[0]
			acceptOne(t, db, event("e2", 300), "i1")
			spoil(t, db, bucketEntries, keyOf(t, db, "i1", b.Seq))
			must.Succeed(t, touch(db, b))
			q, err := db.Lanes.Quarantine(ctxOf(t))
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
		must.Succeed(t, db.Codes.Put(ctx, nil, []byte(mac), Code{Kind: LinkCode, Instance: "i1", ExpiresAt: c.now()}))
	}
	spoil(t, db, bucketCodes, []byte("b"))
	c.add(2 * day)
	got, err := db.Sweep(ctx)
	if got.Codes != 2 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("swept %+v, %v; want two codes, and b named", got, err)
	}
}

// damagedFile is a file with two instances of the tenant family, each with a gateway, a binding, a grant, a
// route and a message, in which the record under k of b is damaged: its value, or its key.
func damagedFile(t *testing.T, b string, k []byte, inKey bool) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	ctx := ctxOf(t)
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		g := Gateway{ID: relay.GatewayID(i), Secrets: []GatewaySecret{{ID: "s", Sealed: []byte("s")}}}
		must.Succeed(t,
			db.Enroll(ctx, nil, g, Instance{ID: i, Tenant: "family", WakeURL: wakeSecret, Principal: Principal{Policy: relay.AnyOne}}),
			db.Bind(ctx, nil, Binding{Platform: "loop", User: "u" + relay.UserID(i), Instance: i}),
			db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c" + relay.ChatID(i), Instance: i}),
			second(db.Routes.Set(ctx, nil, i, "loop", []string{"r" + string(i)})),
			db.PutBlob(ctx, "vault", []byte("wrapped key")),
		)
		acceptOne(t, db, event("for "+string(i), 300), i)
	}
	closeChecked(t, db)
	raw, err := openBolt(path, Options{}.withDefaults())
	must.Succeed(t, err)
	update := boltfile.Update
	if string(k) == "digest" { // which that counts anew
		update = func(b *bolt.DB, fn func(*bolt.Tx) error) error { return b.Update(fn) }
	}
	err = update(raw, func(x *bolt.Tx) error {
		bk := x.Bucket([]byte(b))
		v := slices.Clone(bk.Get(k))
		if inKey {
			if err := bk.Delete(k); err != nil {
				return err
			}
			k = append(slices.Clone(k[:len(k)-1]), k[len(k)-1]^1)
		} else {
			v[len(v)/2] ^= 4
		}
		return bk.Put(k, v)
	})
	// Once more, or an Open would fall back to before the damage.
	must.Succeed(t, err, update(raw, func(*bolt.Tx) error { return nil }), raw.Close())
	return path
}

const wakeSecret = "https://example.net/wake?token=hush"

// refused holds that the file at path is not opened, with one line that names the damage and what to do, and
// not touched.
func refused(t *testing.T, path, names string) {
	t.Helper()
	before := read(t, path)
	db, err := Open(path, Options{})
	if err == nil {
		_ = db.Close()
	}
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("open: %v, want ErrDamaged", err)
	}
	for _, word := range []string{names, path, "restore FILE", "restore --salvage FILE"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %v", err)
	}
	if !slices.Equal(read(t, path), before) {
		t.Error("the file was touched")
	}
}

// salvaged opens what a salvage of the database at path makes of it, which lists names and keeps the former file.
func salvaged(t *testing.T, path, names string) (*DB, Restored) {
	t.Helper()
	before := read(t, path)
	got, err := Salvage(path, bytes.NewReader(before), Options{})
	must.Succeed(t, err)
	all := strings.Join(got.Unread, "\n")
	if !strings.Contains(all, names) || strings.Contains(all, wakeSecret) {
		t.Errorf("listed is %q, want %s", all, names)
	}
	if !slices.Equal(read(t, got.Kept), before) {
		t.Error("the former file is not what it was")
	}
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	db := reopen(t, path, Options{})
	if n := db.Stats().Damaged; n != 0 || db.Stats().FellBack {
		t.Errorf("%+v, want nothing damaged", db.Stats())
	}
	return db, got
}

// TestDamageRefusesTheStart: a record that says who is who, or who may see what, is not made up. What can be
// read of the others is salvaged, and nobody else gets what was the damaged one's.
func TestDamageRefusesTheStart(t *testing.T) { // invariant 8
	t.Parallel()
	for _, tc := range []struct {
		b string
		k []byte
	}{
		{BucketTenants, table.Key("family")}, {BucketInstances, table.Key("i1")}, {BucketGateways, table.Key("i1")},
		{BucketBindings, bindingKey("loop", "ui1", "i1")}, {table.Index, table.IndexKey(BucketBindings, "instance", "i1", "loop", "ui1")},
		{BucketGrants, grantKey("loop", "", "ci1")}, {bucketRoutes, routeKey(Route{Platform: "loop", Key: "ri1", Instance: "i1"})},
		{bucketLanes, table.Key("i1")}, {bucketBlobs, table.Key("vault")}, {BucketMeta, []byte("digest")}, {BucketMeta, []byte(schemaKey)},
	} {
		for _, inKey := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %q %v", tc.b, tc.k, inKey), func(t *testing.T) {
				path := damagedFile(t, tc.b, tc.k, inKey)
				refused(t, path, "bucket "+string(tc.b))
				db, _ := salvaged(t, path, "bucket "+string(tc.b))
				ctx := ctxOf(t)
				for _, i := range []relay.InstanceID{"i1", "i2"} {
					lost := func(b string) bool { return b == tc.b && i == "i1" }
					acceptOne(t, db, event("more for "+string(i), 300), i)
					if got, want := laneOf(t, db, i), "[for "+string(i)+" more for "+string(i)+"]"; got != want {
						t.Errorf("lane of %s: %s, want %s", i, got, want)
					}
					inst, err := Only(db.Instances(ctx, i))
					if err != nil || inst.Tenant != "family" || (inst.WakeURL == "") != lost(BucketInstances) || (inst.Principal.Policy == "") != lost(BucketInstances) {
						t.Errorf("instance %s: %+v, %v", i, inst, err)
					}
					if g, err := Only(db.Gateways(ctx, relay.GatewayID(i))); errors.Is(err, ErrNotFound) != lost(BucketGateways) || err == nil && (g.Revoked || len(g.Secrets) != 1) {
						t.Errorf("gateway %s: %+v, %v", i, g, err)
					}
					bound, err1 := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u" + relay.UserID(i)})
					to, err2 := db.Bindings(ctx, BindingFilter{Instance: i})
					if n := map[bool]int{false: 1}[lost(BucketBindings)]; len(bound) != n || len(to) != n || errors.Join(err1, err2) != nil {
						t.Errorf("bindings of %s: %v, %v, %v, %v; want %d", i, bound, to, err1, err2, n)
					}
					if grants, err := db.Grants(ctx, GrantFilter{Instance: i}); err != nil || len(grants) != map[bool]int{false: 1}[lost(BucketGrants)] {
						t.Errorf("grants of %s: %v, %v", i, grants, err)
					}
				}
				if _, ok, err := db.Blob(ctx, "vault"); err != nil || ok != (tc.b != bucketBlobs) {
					t.Errorf("the vault's blob: %v, %v", ok, err)
				}
				if all, err := tenantsOf(db); err != nil || len(all) != 1 || all[0].ID != "family" {
					t.Errorf("tenants %+v, %v", all, err)
				}
				if err := db.Enroll(ctx, nil, Gateway{ID: "evil"}, Instance{ID: "i1", Tenant: "evil"}); !errors.Is(err, ErrExists) {
					t.Errorf("another tenant takes the name: %v", err)
				}
				if tc.b == BucketGateways {
					if err := db.Enroll(ctx, nil, Gateway{ID: "i1"}, Instance{ID: "i1", Tenant: "family"}); err != nil {
						t.Errorf("enrolled again: %v", err)
					}
				}
				for what, err := range map[string]error{
					"instances": second(db.Instances(ctx)),
					"gateways":  second(db.Gateways(ctx)),
					"routes":    second(db.Routes.List(ctx)),
					"manifests": second(db.Commands.List(ctx, "loop")),
					"sweep":     second(db.Sweep(ctx)),
					"backup":    second(db.Backup(ctx, io.Discard)),
					"revoke":    second(db.Revoke(ctx, nil, "i2", "i2")),
				} {
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		}
	}
}

// TestWhatIsSetAside: what can be missing without harm to others is moved out of the way, and named.
func TestWhatIsSetAside(t *testing.T) { // invariants 5 and 8
	t.Parallel()
	for _, tc := range []struct {
		b string
		k []byte
	}{
		{bucketEntries, entryKey(1, "i1", 1)}, {bucketConversations, conversationKey(Conversation{Instance: "i1", Bot: bot, Chat: "c1"})},
		{dedupe.Newest, dedupe.DayKey(dedupe.Day(time.Now()))},
	} {
		for _, inKey := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %q %v", tc.b, tc.k, inKey), func(t *testing.T) {
				path := damagedFile(t, tc.b, tc.k, inKey)
				var text strings.Builder
				db := reopen(t, path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
				if n := db.Stats().Damaged; n != 1 || !strings.Contains(text.String(), "bucket "+string(tc.b)) {
					t.Errorf("%d damaged; the log: %s", n, &text)
				}
				q, err := db.Lanes.Quarantine(ctxOf(t))
				if err != nil || len(q) != 1 && tc.b != dedupe.Newest {
					t.Errorf("quarantine %+v, %v", q, err)
				}
				acceptOne(t, db, event("more", 300), "i1")
				want := "[for i1 more]"
				if tc.b == bucketEntries {
					want = "[more]"
				}
				if got := laneOf(t, db, "i1") + laneOf(t, db, "i2"); got != want+"[for i2]" {
					t.Errorf("lanes %s, want %s[for i2]", got, want)
				}
				closeChecked(t, db)
				if db = reopen(t, path, Options{}); db.Stats().Damaged != 0 {
					t.Errorf("%d damaged at the start after, want 0", db.Stats().Damaged)
				}
			})
		}
	}
}

// TestAnInstanceNobodyKnowsGoes: what nobody says whose it is must not wait for the next one of that name.
func TestAnInstanceNobodyKnowsGoes(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "a.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1", "i2")
	acceptOne(t, db, event("e1", 300), "i1", "i2")
	must.Succeed(t, db.Lanes.Bury(ctxOf(t), "i1", acceptOne(t, db, event("e2", 300), "i1").Buffers[0], DeadPoison))
	spoil(t, db, BucketInstances, table.Key("i1"))
	spoil(t, db, BucketGateways, table.Key("i1"))
	closeChecked(t, db)
	refused(t, path, "bucket gateways")
	db, _ = salvaged(t, path, "instance i1: all of it")
	must.Succeed(t, db.Enroll(ctxOf(t), nil, Gateway{ID: "i1"}, Instance{ID: "i1", Tenant: "other"}))
	_, talked, err := First(db.Conversations(ctxOf(t), ConversationFilter{Instance: "i1", Chat: relay.Chat{Bot: bot, ID: "c1"}}))
	if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != "[]" || dead != "[]" || talked || err != nil {
		t.Errorf("another tenant's instance has the lane %s, the dead letters %s, the conversation %v, %v", lane, dead, talked, err)
	}
	if got := laneOf(t, db, "i2"); got != "[e1]" {
		t.Errorf("lane of i2: %s", got)
	}
}

// TestLostRecordsRefuseTheStart: nobody could say what is missing.
func TestLostRecordsRefuseTheStart(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	acceptOne(t, db, event("e2", 300), "i1")
	err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
		x.Changes++
		return x.Bucket([]byte(bucketEntries)).Delete(entryKey(1, "i1", 1)) // as if a page were gone
	})
	must.Succeed(t, err, db.PutBlob(ctxOf(t), "after it", nil), db.Close())
	refused(t, path, "not those of the newest commit")
	db, _ = salvaged(t, path, "not those of the newest commit")
	if got := laneOf(t, db, "i1"); got != "[e2]" {
		t.Errorf("lane %s, want what is left", got)
	}
}

// TestSalvageTakesNoRecordForAnother: a page that damage has brought to another bucket holds sound records.
func TestSalvageTakesNoRecordForAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	withCapability(t, db, "e1", "i1", time.Now())
	must.Succeed(t, db.Bind(ctxOf(t), nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}))
	want := recordsOf(t, db)
	brought := func(from, to string) func(x *tx) error {
		return func(x *tx) error {
			for k, v := range want[from] {
				if k != table.Filler {
					if err := x.PutSealed(to, []byte(k), []byte(v)); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	for _, to := range []string{BucketTenants, BucketGateways, BucketBindings, BucketGrants, bucketConversations, bucketPending, bucketEntries, bucketDead} {
		must.Succeed(t, db.change(ctxOf(t), nil, "test", brought(capability.Bucket, to)))
	}
	for _, to := range []string{bucketEntries, media.Bucket, BucketInstances, BucketGateways} { // too short for an entry's key
		must.Succeed(t, db.change(ctxOf(t), nil, "test", brought(BucketTenants, to)))
	}
	if err := db.Close(); err != nil { // its lanes do not agree with what is in them
		t.Fatal(err)
	}
	got, err := Salvage(path, bytes.NewReader(read(t, path)), Options{})
	must.Succeed(t, err)
	for _, b := range []string{BucketTenants, BucketInstances, BucketGateways, BucketBindings, BucketGrants, bucketConversations, media.Bucket} {
		if !slices.ContainsFunc(got.Unread, func(line string) bool { return strings.HasPrefix(line, "bucket "+b+",") }) {
			t.Errorf("nothing is said of bucket %s: %q", b, got.Unread)
		}
	}
	has := recordsOf(t, reopen(t, path, Options{}))
	for _, b := range []string{BucketTenants, BucketInstances, BucketGateways, BucketBindings, BucketGrants, bucketConversations, capability.Bucket, media.Bucket} {
		for k := range has[b] {
			if _, ok := want[b][k]; !ok {
				t.Errorf("bucket %s has %q", b, k)
			}
		}
		if len(has[b]) < len(want[b]) {
			t.Errorf("bucket %s has %d records, want %d", b, len(has[b]), len(want[b]))
		}
	}
}
