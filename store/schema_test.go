package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	bolt "go.etcd.io/bbolt"
)

// schema1 is a database that version 1 wrote, with one of everything it could hold.
func schema1(t *testing.T) (path string) { return written(t, "schema1") }

// written is a copy of a database in testdata.
func written(t *testing.T, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, read(t, "../testdata/store/"+name+".db"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkSchema1 looks for everything that is in the file of schema1.
func checkSchema1(t *testing.T, db *DB) {
	t.Helper()
	ctx := ctxOf(t)
	at := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	tenants, err := tenantsOf(db)
	check("tenants", tenants, []Tenant{{"family", at}, {"home", at}}, err)
	instances, err := db.Instances(ctx)
	check("instances", instances, []Instance{
		{ID: "gone", Tenant: "family", CreatedAt: at},
		{
			ID: "home", Tenant: "home", WakeURL: "https://wake.example/home", CreatedAt: at,
			Principal: Principal{relay.AllowList, []Person{{"telegram", "41"}}},
			Relevance: map[relay.PlatformID]Relevance{"discord": {RequireAddress: true, FreeResponseScopes: []relay.ChatID{"c9"}}},
		},
		{ID: "kids", Tenant: "family", CreatedAt: at},
	}, err)
	manifests, err := db.Commands.List(ctx, "discord")
	check("manifests", manifests, []Manifest{{"home", at, []json.RawMessage{json.RawMessage(`{"name":"ask"}`)}}}, err)
	gateway := func(id relay.GatewayID, i relay.InstanceID, tenant relay.TenantID) Gateway {
		return Gateway{
			ID: id, Instance: i, Tenant: tenant, CreatedAt: at, DeliveryKey: []byte("sealed key of " + id),
			Secrets: []GatewaySecret{{ID: "s1", Sealed: []byte("sealed secret of " + id), CreatedAt: at}},
		}
	}
	gateways, err := db.Gateways(ctx)
	check("gateways", gateways, []Gateway{
		{ID: "gone", Instance: "gone", Tenant: "family", CreatedAt: at, Revoked: true},
		gateway("home", "home", "home"), gateway("kids", "kids", "family"), gateway("spare", "home", "home"),
	}, err)
	bindings, err := db.Bindings(ctx, BindingFilter{Platform: "telegram", User: "41"})
	check("bindings", bindings, []Binding{
		{Tenant: "home", Platform: "telegram", User: "41", Instance: "home", BoundAt: at, DMDefault: true, DMChat: "41"},
		{Tenant: "family", Platform: "telegram", User: "41", Instance: "kids", BoundAt: at},
	}, err)
	to, err := db.Bindings(ctx, BindingFilter{Instance: "kids"})
	check("bindings to", to, bindings[1:], err)
	grants, err := db.Grants(ctx, GrantFilter{})
	check("grants", grants, []Grant{
		{Platform: "discord", Scope: "g1", Chat: "c1", Instance: "home", Tenant: "home", GrantedAt: at},
		{Platform: "telegram", Chat: "-100500", Instance: "kids", Tenant: "family", GrantedAt: at},
	}, err)
	conversations, err := db.Conversations(ctx, ConversationFilter{Instance: "home"})
	tg, dc := relay.Bot{Platform: "telegram", ID: "700001"}, relay.Bot{Platform: "discord", ID: "900001"}
	check("conversations", conversations, []Conversation{
		{Instance: "home", Bot: tg, Chat: "41", By: "41", LastAt: at},
		{Instance: "home", Bot: dc, Chat: "c1", By: "41", LastAt: at.Add(day)},
	}, err)
	code, err := db.Codes.Redeem(ctx, nil, []byte("mac of a link code"), Person{"telegram", "42"}, "42")
	check("link code", code.Instance, relay.InstanceID("kids"), err)
	token, err := db.Codes.Get(ctx, EnrollCode, []byte("mac of a token"))
	check("token", token, Code{Kind: EnrollCode, Tenant: "home", Gateway: "new", Instance: "new", CreatedAt: at, ExpiresAt: at.Add(3 * day)}, err)
	blob, _, err := db.Blob(ctx, "vault")
	check("blob", string(blob), "wrapped key", err)
	for b, want := range map[relay.Bot]string{tg: "1003", dc: `{"seq":7}`} {
		cursor, err := db.Cursor(ctx, b)
		check("cursor", string(cursor), want, err)
	}
	entries, err := db.Lanes.Entries(ctx, "home", EntryFilter{})
	if err != nil || len(entries) != 2 || entries[0].About.ID != "m2" || entries[0].Deaths != 1 || entries[1].Event.Text != "hello d1" {
		t.Errorf("entries %+v, %v; want m2, which was in flight when a socket died, and d1", entries, err)
	}
	for i, want := range map[relay.InstanceID]string{"home": "[m2 d1]", "kids": "[d1 m3]", "gone": "[]"} {
		check("lane of "+string(i), laneOf(t, db, i), want, nil)
	}
	for i, want := range map[relay.InstanceID]string{"home": "[m1:poison]", "kids": "[]", "gone": "[m1:removed]"} {
		check("dead letters of "+string(i), deadOf(t, db, i), want, nil)
	}
	quarantine, err := db.Lanes.Quarantine(ctx)
	check("quarantine", quarantine, []Quarantined{{Bot: dc, At: at.Add(day), Err: "no such type", Raw: []byte(`{"t":1}`)}}, err)
	for id, b := range map[relay.EventID]relay.Bot{"m1": tg, "m2": tg, "d1": dc, "m3": tg} { // all three days
		seen, err := db.Seen(ctx, b, id)
		check("seen "+string(id), seen, true, err)
	}
	if n := db.Stats().BadMarks; n != 0 {
		t.Errorf("%d damaged seen marks", n)
	}
}

func schema1Clock() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func TestSchema1IsBroughtUpToDate(t *testing.T) {
	path := schema1(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema1(t, db)
	ctx := ctxOf(t)
	for what, err := range map[string]error{ // what is new works in it
		"routes":   second(db.Routes.Set(ctx, nil, "home", "telegram", []string{"-100501"})),
		"identity": db.Codes.Put(ctx, nil, []byte("m"), Code{Kind: IdentityCode, Tenant: "home", Instance: "home"}),
		"audited":  db.Release(ctx, &audit.Entry{Action: "release"}, "kids", "telegram", "", "-100500"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if rows, err := db.Audit(ctx, 0); err != nil || len(rows) != 1 {
		t.Errorf("audit %v, %v", rows, err)
	}
	closeChecked(t, db)
	before := read(t, path)
	closeChecked(t, reopen(t, path, Options{Now: schema1Clock}))
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
}

func TestMigrationGoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		steps []migration // the last one fails
		at    int         // the version the file is left at
	}{
		"in the middle of a step": {[]migration{func(x *bolt.Tx) error { return errors.Join(toSchema2(x), broken) }}, 1},
		"between two steps":       {[]migration{toSchema2, func(*bolt.Tx) error { return broken }}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			path := schema1(t)
			b, err := openBolt(path, Options{}.withDefaults())
			if err != nil {
				t.Fatal(err)
			}
			err = migrate(b, tc.steps)
			v, err2 := version(b)
			if err3 := b.Close(); !errors.Is(err, broken) || v != tc.at || errors.Join(err2, err3) != nil {
				t.Fatalf("left at version %d with %v, %v, %v; want %d", v, err, err2, err3, tc.at)
			}
			checkSchema1(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
	path := schema1(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, []migration{toSchema2}), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema1(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}
