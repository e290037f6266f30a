package manage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestSelf(t *testing.T) {
	w := newWorld(t, &server{bots: []platforms.Bot{newBird("pigeon", "1")}, connected: "home"})
	w.enroll(t, "home", "attic")
	wake := "https://box.example/wake"
	p := boot("pigeon")
	p.WakeURL = &wake
	w.provision(t, p)
	yes := true
	for what, err := range map[string]error{
		"bind":   second(w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"})),
		"claim":  second(w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "raven", Chat: "nest"})),
		"other":  second(w.Claim(t.Context(), system, manage.Scope{Name: "attic", Platform: "raven", Chat: "loft"})),
		"policy": second(w.SetRelevance(t.Context(), system, manage.SetRelevance{Name: "home", Platform: "raven", AllowBots: &yes})),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ids := w.put(t, "home", "e1", "e2")
	if err := w.db.Lanes.Bury(t.Context(), "home", ids[0], store.DeadPoison); err != nil {
		t.Fatal(err)
	}
	self, err := w.Self(t.Context(), manage.Named{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	gateway := func(name string) any {
		return map[string]any{
			"gatewayId": name, "instanceId": "home", "tenant": "home", "state": "connected", "createdAt": "2026-11-21T12:00:00Z", "secrets": 1.0,
		}
	}
	policy := func(p string, bots bool) any {
		return map[string]any{
			"instanceId": "home", "platform": p, "requireAddress": true, "freeResponseScopes": []any{}, "allowOtherBots": bots, "ownerMustAddress": false, "context": "granted",
		}
	}
	want := map[string]any{
		"instanceId": "home", "tenant": "home", "state": "connected", "wakeUrl": true, "backlog": 1.0, "dead": 1.0,
		"gateways":   []any{gateway("gw-box"), gateway("home")},
		"boundUsers": []any{map[string]any{"platform": "pigeon", "userId": "ann", "dmDefault": false}},
		"scopes": []any{map[string]any{
			"platform": "raven", "chatId": "nest", "instanceId": "home", "tenant": "home", "grantedAt": "2026-11-21T12:00:00Z",
		}},
		"principal": map[string]any{"instanceId": "home", "policy": "owner-only", "allow": []any{}},
		"quiet":     map[string]any{"instanceId": "home", "hours": "", "zone": ""},
		"relevance": map[string]any{"pigeon": policy("pigeon", false), "raven": policy("raven", true)},
		"missing": []any{
			"Chats on raven are granted, but nobody linked on raven can see them, so nothing of them is delivered.",
			"Messages were given up (1); whoever runs the connector can deliver them again.",
		},
	}
	if diff := cmp.Diff(want, keysOf(t, self)); diff != "" { // invariant 4
		t.Errorf("self (-want +got):\n%s", diff)
	}
}

// second drops what a call returned beside the error.
func second[T any](_ T, err error) error { return err }

func TestSelfSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	if err := w.db.UpdateInstance(t.Context(), nil, "home", func(i *store.Instance) error { i.Asleep = true; return nil }); err != nil {
		t.Fatal(err)
	}
	self, err := w.Self(t.Context(), manage.Named{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"No bot is hosted here yet.",
		"Nobody is linked: make a code with POST /manage/link and send it to the bot in a direct message.",
		"It sleeps and has no wake URL: messages wait until it comes back by itself.",
	}
	if diff := cmp.Diff(want, self.Missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	_, err = w.Self(t.Context(), manage.Named{Name: "nobody"})
	wantRefusal(t, err, manage.NotFound)
}

func TestDeprovision(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "attic")
	w.provision(t, boot("pigeon"))
	tok := w.enrollToken(t, manage.Enroll{Name: "later"})
	url, err := w.Identity(t.Context(), system, manage.Named{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Deprovision(t.Context(), system, manage.Named{Name: "home"})
	want := map[string]any{"instanceId": "home", "tenant": "home", "gateways": []any{"gw-box", "home"}}
	if diff := cmp.Diff(want, keysOf(t, got)); diff != "" || err != nil {
		t.Errorf("%v; deprovisioned (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]bus.Note{bus.Revoked{Gateway: "gw-box"}, bus.Revoked{Gateway: "home"}}, w.notes); diff != "" { // invariant 2
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if c := w.code(t, url.URL); c.Instance != "" {
		t.Errorf("its identity code is still good: %+v", c)
	}
	if c := w.code(t, tok.IdentityURL); c.Instance != "later" {
		t.Errorf("another's identity code fell: %+v", c)
	}
	if again, err := w.Deprovision(t.Context(), system, manage.Named{Name: "home"}); err != nil || len(again.Gateways) != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	_, err = w.Deprovision(t.Context(), system, manage.Named{Name: "nobody"})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.Self(t.Context(), manage.Named{Name: "home"})
	wantRefusal(t, err, manage.NotFound)
}

func TestManageable(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "gone")
	if _, err := w.Provision(t.Context(), system, manage.Provision{Tenant: "home", Instance: "home", Gateway: "gw-box", Platform: "pigeon"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []relay.TenantID{"home", ""} {
		if err := w.Manageable(t.Context(), "home", tenant); err != nil {
			t.Errorf("its instance, by tenant %q: %v", tenant, err)
		}
	}
	for name, who := range map[string]struct {
		instance relay.InstanceID
		tenant   relay.TenantID
	}{
		"another tenant's":      {"home", "away"},
		"nobody's":              {"nobody", "home"},
		"a gateway's name":      {"gw-box", "home"},
		"nobody can serve it":   {"gone", "home"},
		"no name":               {"", ""},
		"nobody's, whoever's":   {"nobody", ""},
		"revoked and another's": {"gone", "away"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, w.Manageable(t.Context(), who.instance, who.tenant), manage.NotFound)
		})
	}
}
