package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestPolicyIsAFullReplacement(t *testing.T) {
	r := newRig(t, identity.Options{})
	yes := true
	if _, err := r.svc.SetRelevance(t.Context(), audit.Actor{}, manage.SetRelevance{
		Name: "gw", Platform: "pigeon", OwnerMustAddress: &yes, Context: new(relay.ContextOff),
	}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []map[string]any{
		{"platform": "pigeon", "requireAddress": false, "freeResponseScopes": []string{"loft", "attic"}, "allowOtherBots": true},
		{"platform": "pigeon", "requireAddress": true, "freeResponseScopes": []string{}, "allowOtherBots": false},
		{"platform": "not-spoken", "requireAddress": true, "freeResponseScopes": []string{"x"}, "allowOtherBots": false, "gatewayId": "other"},
	} {
		r.call("POST", "/relay/policy", r.gw("gw"), body).want(t, http.StatusOK, "")
	}
	i, err := store.Only(r.db.Instances(t.Context(), "gw"))
	must.Succeed(t, err)
	want := map[relay.PlatformID]store.Relevance{
		"pigeon": {RequireAddress: true, OwnerMustAddress: true, Context: relay.ContextOff},
	}
	if diff := cmp.Diff(want, i.Relevance); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if other, err := store.Only(r.db.Instances(t.Context(), "other")); err != nil || len(other.Relevance) != 0 {
		t.Errorf("the instance the body names: %+v, %v; want it untouched", other.Relevance, err) // invariant 1
	}
}

func TestLink(t *testing.T) {
	r := newRig(t, identity.Options{})
	resp := r.call("POST", "/manage/link", r.gw("gw"), map[string]any{"platform": "pigeon", "instanceId": "other"})
	resp.want(t, http.StatusOK, "")
	code := resp.text("code")
	want := map[string]any{
		"code": code, "expiresAt": "2026-11-21T12:10:00Z", "deepLinks": map[string]any{"pigeon": "https://coo.example/?a=1&code=" + code},
	}
	if diff := cmp.Diff(want, resp.body); diff != "" || code == "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	resp = r.call("POST", "/manage/link", r.gw("gw"), map[string]any{"platform": "crow"})
	if resp.code != http.StatusBadRequest || resp.text("error") != `platform: unknown platform "crow": this program speaks pigeon` {
		t.Errorf("a platform nobody speaks: %d %s", resp.code, resp.raw)
	}
	resp = r.call("POST", "/manage/link", r.gw("gw"), map[string]any{"commands": []string{"add"}})
	if want := `commands: "add" is not a command: write / and up to 32 letters, digits, _ and -`; resp.code != http.StatusBadRequest || resp.text("error") != want {
		t.Errorf("what is no command: %d %s", resp.code, resp.raw)
	}
	r.call("POST", "/manage/link", r.gw("gw"), map[string]any{"commands": []string{"/add"}}).want(t, http.StatusOK, "")
}

func TestScope(t *testing.T) {
	r := newRig(t, identity.Options{})
	chat := func(id string) map[string]any { return map[string]any{"platform": "pigeon", "chatId": id} }
	for id := range map[string]bool{"loft": true, "held": true, "reserved": true} {
		r.live.manages[relay.ChatID(id)] = relay.Place{Platform: "pigeon", Scope: "tower", Chat: relay.ChatID(id)}
	}
	if _, err := r.svc.Claim(t.Context(), audit.Actor{}, manage.Scope{Name: "other", Platform: "pigeon", Scope: "tower", Chat: "held"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.db.Routes.Set(t.Context(), nil, "other", "pigeon", []string{"reserved"}); err != nil {
		t.Fatal(err)
	}
	resp := r.call("POST", "/manage/scope", r.gw("gw"), with(chat("loft"), map[string]any{"instanceId": "other"}))
	resp.want(t, http.StatusOK, "")
	want := map[string]any{
		"platform": "pigeon", "scopeId": "tower", "chatId": "loft", "instanceId": "gw", "tenant": "home", "grantedAt": "2026-11-21T12:00:00Z",
	}
	if diff := cmp.Diff(want, resp.body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	r.call("POST", "/manage/scope", r.gw("gw"), chat("held")).want(t, http.StatusConflict, "held by another instance")
	for _, id := range []string{"reserved", "not-managed", "no-such-chat"} { // invariant 2
		r.call("POST", "/manage/scope", r.gw("gw"), chat(id)).want(t, http.StatusForbidden, "forbidden")
	}
	for _, id := range []string{"held", "no-such-chat"} { // invariant 2
		r.call("POST", "/manage/scope/release", r.gw("gw"), with(chat(id), map[string]any{"scopeId": "tower"})).want(t, http.StatusNotFound, "not found")
	}
	release := with(chat("loft"), map[string]any{"scopeId": "tower"})
	r.call("POST", "/manage/scope/release", r.gw("gw"), release).want(t, http.StatusOK, "")
	r.call("POST", "/manage/scope/release", r.gw("gw"), release).want(t, http.StatusNotFound, "not found")
	if all, err := r.db.Grants(t.Context(), store.GrantFilter{}); err != nil || len(all) != 1 || all[0].Instance != "other" {
		t.Errorf("grants %+v, %v; want the other's alone", all, err)
	}
}

func TestPrincipal(t *testing.T) {
	r := newRig(t, identity.Options{})
	eve := map[string]any{"platform": "pigeon", "userId": "eve"}
	for name, tc := range map[string]struct {
		body map[string]any
		code int
		says string
	}{
		"anybody":              {map[string]any{"policy": "any"}, 200, ""},
		"a list":               {map[string]any{"policy": "allow-list", "allow": []any{eve}}, 200, ""},
		"unknown":              {map[string]any{"policy": "nobody"}, 400, `policy: unknown policy "nobody": want owner-only, allow-list or any`},
		"a list that is none":  {map[string]any{"policy": "any", "allow": "eve"}, 400, "allow: want a list"},
		"a name for a person":  {map[string]any{"policy": "allow-list", "allow": []any{eve, "eve"}}, 400, "allow[1]: want an object"},
		"a person with a hole": {map[string]any{"policy": "allow-list", "allow": []any{eve, map[string]any{"platform": "pigeon"}}}, 400, "allow[1].userId: missing"},
		"a control character":  {map[string]any{"policy": "allow-list", "allow": []any{map[string]any{"platform": "pigeon", "userId": "\u009b2J"}}}, 400, "allow[0].userId: want no blanks and no control characters"},
		"a number for an id":   {map[string]any{"policy": "allow-list", "allow": []any{map[string]any{"platform": "pigeon", "userId": 7}}}, 400, "allow[0].userId: want a string"},
	} {
		t.Run(name, func(t *testing.T) { r.call("POST", "/manage/principal", r.gw("gw"), tc.body).want(t, tc.code, tc.says) })
	}
	resp := r.call("POST", "/manage/principal", r.gw("gw"), map[string]any{"policy": "allow-list", "allow": []any{eve}, "instanceId": "other"})
	want := map[string]any{"instanceId": "gw", "policy": "allow-list", "allow": []any{eve}}
	if diff := cmp.Diff(want, resp.body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// TestQuiet: what a body calls itself changes nothing, however it is spelled (invariant 1).
func TestQuiet(t *testing.T) {
	r := newRig(t, identity.Options{})
	hours := map[string]any{"hours": "22:00-07:00", "zone": "UTC"}
	want := map[string]any{"instanceId": "gw", "hours": "22:00-07:00", "zone": "UTC", "now": "2026-11-21T12:00:00Z"}
	for _, body := range []map[string]any{hours, with(hours, map[string]any{"name": "other"}), with(hours, map[string]any{"NAME": "other", "Name": "other", "zzname": 1}), {}, {"hours": nil}} {
		resp := r.call("POST", "/manage/quiet", r.gw("gw"), body)
		resp.want(t, http.StatusOK, "")
		if diff := cmp.Diff(want, resp.body); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
	if i, err := store.Only(r.db.Instances(t.Context(), "other")); err != nil || !i.Quiet.IsZero() {
		t.Errorf("the instance the body names: %v, %v; want it untouched", i.Quiet, err)
	}
	for says, body := range map[string]map[string]any{
		`hours: "night": want two times of day such as 22:00-07:00`:                                                                             {"hours": "night"},
		`zone: "Europe/Bonn" is no time zone that this machine knows: want one such as Europe/Berlin (if it knows none, its tzdata is missing)`: with(hours, map[string]any{"zone": "Europe/Bonn"}),
		`zone: a time zone goes with times only, such as 22:00-07:00`:                                                                           {"zone": "UTC"},
	} {
		r.call("POST", "/manage/quiet", r.gw("gw"), body).want(t, http.StatusBadRequest, says)
	}
	r.call("POST", "/manage/quiet", r.gw("gw"), map[string]any{"hours": "off"}).want(t, http.StatusOK, "")
	if i, err := store.Only(r.db.Instances(t.Context(), "gw")); err != nil || !i.Quiet.IsZero() {
		t.Errorf("ended: %v, %v", i.Quiet, err)
	}
}

func TestDMDefault(t *testing.T) {
	r := newRig(t, identity.Options{})
	resp := r.call("POST", "/manage/dm-default", r.gw("gw"), map[string]any{"platform": "pigeon", "userId": "ann", "instanceId": "other"})
	want := map[string]any{"platform": "pigeon", "userId": "ann", "instanceId": "gw"}
	if diff := cmp.Diff(want, resp.body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for _, user := range []string{"bob", "no-such-user"} { // invariant 2
		r.call("POST", "/manage/dm-default", r.gw("gw"), map[string]any{"platform": "pigeon", "userId": user}).want(t, http.StatusNotFound, "not found")
	}
}

func TestDeprovisionByGateway(t *testing.T) {
	r := newRig(t, identity.Options{})
	bearer := r.gw("gw")
	resp := r.call("POST", "/manage/deprovision", bearer, map[string]any{"instanceId": "other"})
	want := map[string]any{"ok": true, "instanceId": "gw", "tenant": "home", "gateways": []any{"gw"}}
	if diff := cmp.Diff(want, resp.body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bus.Note{bus.Revoked{Gateway: "gw"}}, r.told); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	r.call("POST", "/manage/deprovision", bearer, "{}").want(t, http.StatusUnauthorized, "unauthorized")
	r.call("GET", "/manage/self", r.gw("other"), nil).want(t, http.StatusOK, "")
	rows, err := r.db.Audit.List(t.Context(), 1)
	if err != nil || len(rows) != 1 || rows[0].Actor != (audit.Actor{Kind: audit.ActorGateway, Name: "gw"}) || rows[0].Action != "deprovision" {
		t.Errorf("audit rows %+v, %v; want the decision of the gateway last", rows, err)
	}
}

func TestManagedToken(t *testing.T) {
	r := newRig(t, identity.Options{Mode: identity.JWKS})
	resp := r.call("GET", "/manage/self", r.jwt("agent:gw", "home"), nil)
	resp.want(t, http.StatusOK, "")
	if resp.text("instanceId") != "gw" || resp.text("tenant") != "home" {
		t.Errorf("self is %s, want gw of home", resp.raw)
	}
	r.call("GET", "/manage/self", r.jwt("agent:gw", ""), nil).want(t, http.StatusOK, "")
	r.call("GET", "/manage/self", r.gw("gw"), nil).want(t, http.StatusOK, "")
	r.call("POST", "/relay/policy", r.jwt("agent:gw", "home"), samples()["policy"].body(r)).want(t, http.StatusOK, "")
	if _, err := r.svc.EnrollToken(t.Context(), audit.Actor{}, manage.Enroll{Name: "later", Tenant: "home"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.svc.Provision(t.Context(), audit.Actor{}, manage.Provision{Tenant: "home", Instance: "gw", Gateway: "box", Platform: "pigeon"}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		bearer string
		path   string
		code   int
		says   string
	}{
		"no such instance":             {r.jwt("agent:nobody", "home"), "/manage/self", 404, "not found"},
		"a gateway's name":             {r.jwt("agent:box", "home"), "/manage/self", 404, "not found"},
		"another tenant's claim":       {r.jwt("agent:gw", "away"), "/manage/self", 404, "not found"},
		"another tenant's instance":    {r.jwt("agent:other", "home"), "/manage/self", 404, "not found"},
		"a token for enrollment":       {r.jwt("connector", "home"), "/manage/self", 401, "unauthorized"},
		"not signed by the issuer":     {r.jwt("agent:gw", "home") + "x", "/manage/self", 401, "unauthorized"},
		"another tenant's policy":      {r.jwt("agent:other", "home"), "/relay/policy", 404, "not found"},
		"provisioning is for identity": {r.jwt("agent:gw", "home"), "/relay/provision", 401, "unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			r.from = r.from.Next()
			method := "POST"
			if tc.path == "/manage/self" {
				method = "GET"
			}
			r.call(method, tc.path, tc.bearer, nil).want(t, tc.code, tc.says)
		})
	}
	stale := r.jwt("agent:gw", "home")
	r.clock = r.clock.Add(time.Hour)
	r.call("GET", "/manage/self", stale, nil).want(t, http.StatusUnauthorized, "unauthorized")
	r.call("POST", "/manage/deprovision", r.jwt("agent:gw", "home"), "{}").want(t, http.StatusOK, "")
	r.call("POST", "/manage/deprovision", r.jwt("agent:gw", "home"), "{}").want(t, http.StatusNotFound, "not found")
	r.call("GET", "/manage/self", r.gw("gw"), nil).want(t, http.StatusUnauthorized, "unauthorized")
	rows, err := r.db.Audit.List(t.Context(), 1)
	if err != nil || len(rows) != 1 || rows[0].Actor != (audit.Actor{Kind: audit.ActorJWT, Name: "console"}) {
		t.Errorf("audit rows %+v, %v; want the decision of the token's subject last", rows, err)
	}
}
