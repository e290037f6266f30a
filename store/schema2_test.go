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

// schema2 is a database that version 2 wrote, with one of everything it could hold.
func schema2(t *testing.T) (path string) { return written(t, "schema2") }

// checkSchema2 looks for everything that is in the file of schema2. It redeems the link code.
func checkSchema2(t *testing.T, db *DB) {
	t.Helper()
	ctx := ctxOf(t)
	at := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	ann, home := audit.Actor{Kind: audit.ActorCLI, Name: "ann"}, audit.Actor{Kind: audit.ActorGateway, Name: "home"}
	rows, err := db.Audit(ctx, 0)
	check("audit", rows, []audit.Entry{
		{At: at, Actor: ann, Action: "enroll", Tenant: "home", Instance: "home", Gateway: "home"},
		{At: at, Actor: ann, Action: "enroll", Tenant: "home", Instance: "home", Gateway: "spare"},
		{At: at, Actor: ann, Action: "enroll", Tenant: "family", Instance: "kids", Gateway: "kids"},
		{At: at, Actor: ann, Action: "enroll", Tenant: "family", Instance: "gone", Gateway: "gone"},
		{At: at, Actor: home, Action: "route", Tenant: "home", Instance: "home", Detail: "discord g1"},
		{At: at, Actor: ann, Action: "identity", Tenant: "home", Instance: "home"},
		{At: at, Actor: ann, Action: "bind", Tenant: "home", Instance: "home", Detail: "telegram 41"},
		{At: at, Actor: home, Action: "claim", Tenant: "home", Instance: "home", Detail: "discord chat c1"},
		{At: at, Actor: home, Action: "link-code", Tenant: "home", Instance: "home"},
		{At: at, Actor: audit.Actor{Kind: audit.ActorSystem}, Action: "enroll-token"},
		{At: at.Add(day), Actor: ann, Action: "revoke", Tenant: "family", Instance: "gone", Gateway: "gone"},
	}, err)
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
			ID: id, Instance: i, Tenant: tenant, CreatedAt: at, DeliveryKey: []byte("sealed key of " + id), Provisioned: id == "spare",
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
	grants, err := db.Grants(ctx, GrantFilter{})
	check("grants", grants, []Grant{
		{Platform: "discord", Scope: "g1", Chat: "c1", Instance: "home", Tenant: "home", GrantedAt: at},
		{Platform: "telegram", Chat: "-100500", Instance: "kids", Tenant: "family", GrantedAt: at},
	}, err)
	routes, err := db.Routes.List(ctx)
	check("routes", routes, []Route{
		{Platform: "discord", Key: "g1", Tenant: "home", Instance: "home", At: at},
		{Platform: "telegram", Key: "-100500", Tenant: "family", Instance: "kids", At: at},
	}, err)
	tg, dc := relay.Bot{Platform: "telegram", ID: "700001"}, relay.Bot{Platform: "discord", ID: "900001"}
	conversations, err := db.Conversations(ctx, ConversationFilter{Instance: "home"})
	check("conversations", conversations, []Conversation{
		{Instance: "home", Bot: tg, Chat: "41", By: "41", LastAt: at},
		{Instance: "home", Bot: dc, Chat: "c1", By: "41", LastAt: at.Add(day)},
	}, err)
	code, err := db.Codes.Redeem(ctx, nil, []byte("mac of a link code"), Person{"telegram", "42"}, "42")
	check("link code", code.Instance, relay.InstanceID("kids"), err)
	token, err := db.Codes.Get(ctx, EnrollCode, []byte("mac of a token"))
	check("token", token, Code{Kind: EnrollCode, Tenant: "home", Gateway: "new", Instance: "new", CreatedAt: at, ExpiresAt: at.Add(3 * day)}, err)
	identity, err := db.Codes.Get(ctx, IdentityCode, []byte("mac of an identity code"))
	check("identity code", identity, Code{Kind: IdentityCode, Tenant: "home", Instance: "home", CreatedAt: at}, err)
	identity, err = db.Codes.Get(ctx, IdentityCode, []byte("mac of an identity code for enrolling"))
	check("identity code", identity, Code{Kind: IdentityCode, Tenant: "family", CreatedAt: at, ExpiresAt: at.Add(3 * day)}, err)
	blob, _, err := db.Blob(ctx, "vault")
	check("blob", string(blob), "wrapped key", err)
	for b, want := range map[relay.Bot]string{tg: "1003", dc: `{"seq":7}`} {
		cursor, err := db.Cursor(ctx, b)
		check("cursor", string(cursor), want, err)
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
	if s := db.Stats(); s.BadMarks != 0 || s.Damaged != 0 {
		t.Errorf("%d damaged seen marks, %d other records", s.BadMarks, s.Damaged)
	}
}

func TestSchema2IsBroughtUpToDate(t *testing.T) {
	path := schema2(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema2(t, db)
	ctx := ctxOf(t)
	if err := db.Release(ctx, &audit.Entry{Action: "release", Tenant: "family"}, "kids", "telegram", "", "-100500"); err != nil {
		t.Error(err)
	}
	if rows, err := db.Audit(ctx, 2); err != nil || len(rows) != 2 || rows[0].Action != "revoke" || rows[1].Action != "release" {
		t.Errorf("audit %v, %v; want the new row behind the old ones", rows, err)
	}
	closeChecked(t, db)
	before := read(t, path)
	closeChecked(t, reopen(t, path, Options{Now: schema1Clock}))
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
}

func TestMigrationFromSchema2GoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	path := schema2(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	err = migrate(b, []migration{toSchema2, func(x *bolt.Tx) error { return errors.Join(toSchema3(x), broken) }})
	v, err2 := version(b)
	if err3 := b.Close(); !errors.Is(err, broken) || v != 2 || errors.Join(err2, err3) != nil {
		t.Fatalf("left at version %d with %v, %v, %v; want 2", v, err, err2, err3)
	}
	checkSchema2(t, reopen(t, path, Options{Now: schema1Clock}))

	path = schema2(t)
	if b, err = openBolt(path, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, []migration{toSchema2, toSchema3}), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema2(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}
