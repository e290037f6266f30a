package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

const badToken = "the enrollment token is wrong, used, expired or for another gateway: ask for a new one"

// enrollBody is what every age sends.
func enrollBody(et, gateway string) map[string]any {
	return map[string]any{"enrollmentToken": et, "gatewayId": gateway}
}

func TestEnroll(t *testing.T) {
	r := newRig(t, identity.Options{})
	bound, code := r.enrollment(manage.Enroll{Name: "kids", Tenant: "home"})
	resp := r.call("POST", "/relay/enroll", "a.nous.jwt", enrollBody(bound, "gw-laptop"))
	resp.want(t, http.StatusOK, "")
	secret, key := resp.text("secret"), resp.text("deliveryKey")
	want := map[string]any{
		"secret": secret, "deliveryKey": key, "tenant": "home", "gatewayId": "kids", "instanceId": "kids", "url": "https://relay.example.net",
	}
	if diff := cmp.Diff(want, resp.body); diff != "" || len(secret) != 64 || len(key) != 64 {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	rows, err := r.db.Audit.List(t.Context(), 1)
	if who := (audit.Actor{Kind: audit.ActorIdentity, Name: "enrollment token"}); err != nil || len(rows) != 1 || rows[0].Actor != who || rows[0].Gateway != "kids" {
		t.Errorf("audit rows %+v, %v; want the enrollment of kids last", rows, err)
	}
	_, verdict, err := r.auth.Verify(t.Context(), token.Mint("kids", relay.NewSecret([]byte(secret)), time.Time{}))
	if err != nil || verdict != token.Valid {
		t.Errorf("the secret it was given: %s, %v; want valid", verdict, err)
	}
	for name, tc := range map[string]struct {
		token   func() string
		bearer  string
		gateway string
		code    int
		says    string
	}{
		"a used token":    {func() string { return bound }, "", "kids", http.StatusForbidden, badToken},
		"an unknown one":  {func() string { return strings.Repeat("A", 43) }, "", "kids", http.StatusForbidden, badToken},
		"another secret":  {func() string { return code }, "", "kids", http.StatusForbidden, badToken},
		"an expired one":  {func() string { defer func() { r.clock = r.clock.Add(16 * time.Minute) }(); return r.unbound() }, "", "k2", http.StatusForbidden, badToken},
		"a taken name":    {r.unbound, "", "gw", http.StatusConflict, "already exists"},
		"an unfit name":   {r.unbound, "", "a/b", http.StatusBadRequest, `gatewayId: "a/b" cannot name a gateway: name contains '/'`},
		"another tenant":  {r.unbound, r.ambient("other"), "k3", http.StatusForbidden, badToken},
		"a bad identity":  {r.unbound, "hci1.x.y", "k4", http.StatusUnauthorized, "unauthorized"},
		"with nobody's":   {r.unbound, "garbage", "k5", http.StatusOK, ""},
		"with our tenant": {r.unbound, r.ambient("gw"), "k6", http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.from = r.from.Next()
			if tc.bearer != "" && strings.HasPrefix(tc.bearer, "hci1.") && tc.bearer != "hci1.x.y" {
				r.clock = noon
			}
			et := tc.token()
			resp := r.call("POST", "/relay/enroll", tc.bearer, enrollBody(et, tc.gateway))
			resp.want(t, tc.code, tc.says)
			if tc.code == http.StatusOK && resp.text("gatewayId") != tc.gateway {
				t.Errorf("answer %s, want the name it asked for", resp.raw)
			}
		})
	}
}

// unbound is a token that names no gateway.
func (r *rig) unbound() string {
	et, _ := r.enrollment(manage.Enroll{Tenant: "home"})
	return et
}

func TestEnrollWithIdentities(t *testing.T) {
	asked := 0
	hanging, release := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if routes.Bearer(r) == "hang" {
			hanging <- struct{}{}
			<-release
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		asked++
		switch routes.Bearer(r) {
		case "down":
			w.WriteHeader(http.StatusBadGateway)
		case "home", "away":
			_ = json.NewEncoder(w).Encode(map[string]string{"org": routes.Bearer(r), "sub": "jan"})
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer provider.Close()
	for mode, tc := range map[string]struct {
		options identity.Options
		bearer  func(*rig, string) string // of a tenant
	}{
		"jwks": {identity.Options{Mode: identity.JWKS}, func(r *rig, tenant string) string { return r.jwt("connector", tenant) }},
		"introspect": {
			identity.Options{Mode: identity.Introspect, IntrospectURL: provider.URL, TenantField: "org"},
			func(_ *rig, tenant string) string { return tenant },
		},
	} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, tc.options)
			et, code := r.enrollment(manage.Enroll{Name: "kids", Tenant: "home"})
			if code != "" {
				t.Errorf("an identity URL in this mode: %q", code)
			}
			body := enrollBody(et, "kids")
			for _, none := range []string{"", "garbage", r.gw("gw")} {
				r.call("POST", "/relay/enroll", none, body).want(t, http.StatusUnauthorized, "unauthorized")
			}
			r.call("POST", "/relay/enroll", tc.bearer(r, "away"), body).want(t, http.StatusForbidden, badToken)
			r.call("POST", "/relay/enroll", tc.bearer(r, "home"), body).want(t, http.StatusOK, "")
			r.call("GET", "/relay/identity/"+strings.Repeat("A", 43), "", nil).want(t, http.StatusNotFound, "not found")

			// Provisioning takes the tenant from the same identity.
			boot := map[string]any{"gatewayId": "fresh", "platform": "pigeon", "instanceId": "other"}
			r.call("POST", "/relay/provision", tc.bearer(r, "home"), boot).want(t, http.StatusNotFound, "not found")
			delete(boot, "instanceId")
			resp := r.call("POST", "/relay/provision", tc.bearer(r, "home"), boot)
			resp.want(t, http.StatusOK, "")
			if resp.text("tenant") != "home" || len(resp.text("secret")) != 64 {
				t.Errorf("provisioned %s, want a secret in tenant home", resp.raw)
			}
			rows, err := r.db.Audit.List(t.Context(), 1)
			who := audit.Actor{Kind: audit.ActorIdentity, Name: "home:" + map[string]string{"jwks": "console", "introspect": "jan"}[mode]}
			if err != nil || len(rows) != 1 || rows[0].Actor != who {
				t.Errorf("audit rows %+v, %v; want the last by %+v", rows, err, who)
			}
		})
	}
	t.Run("the introspection is spared", func(t *testing.T) {
		r := newRig(t, identity.Options{Mode: identity.Introspect, IntrospectURL: provider.URL, TenantField: "org"})
		r.call("POST", "/relay/provision", "down", nil).want(t, http.StatusServiceUnavailable, "unavailable")
		asked = 0
		for range 100 {
			r.call("POST", "/relay/provision", "wrong", nil)
		}
		if asked != 10 {
			t.Errorf("the third party was asked %d times by one address, want its 10 failures", asked)
		}
		r.call("POST", "/relay/provision", "home", nil).want(t, http.StatusTooManyRequests, "too many failed attempts")
		failing := r.from
		r.from = r.from.Next()
		r.call("POST", "/relay/provision", "home", nil).want(t, http.StatusBadRequest, "the body must be a JSON object")
		r.from = failing // what is known costs no question
		r.call("POST", "/relay/provision", "home", nil).want(t, http.StatusBadRequest, "the body must be a JSON object")
	})
	t.Run("an address whose questions hang", func(t *testing.T) {
		r := newRig(t, identity.Options{Mode: identity.Introspect, IntrospectURL: provider.URL, TenantField: "org"})
		var wg sync.WaitGroup
		for range maxStrangers {
			req := httptest.NewRequestWithContext(t.Context(), "POST", "/relay/provision", nil)
			req.Header.Set("Authorization", "Bearer hang")
			wg.Go(func() { r.send(req).want(t, http.StatusServiceUnavailable, "unavailable") })
			<-hanging
		}
		r.call("POST", "/relay/provision", "home", nil).want(t, http.StatusTooManyRequests, "too many requests at once")
		r.from = r.from.Next()
		r.call("POST", "/relay/provision", "home", nil).want(t, http.StatusBadRequest, "the body must be a JSON object")
		close(release)
		wg.Wait()
	})
}

func TestProvision(t *testing.T) {
	r := newRig(t, identity.Options{})
	code := r.code("gw")
	bearer := r.minted(code)
	body := map[string]any{"gatewayId": "gw", "platform": "pigeon", "botId": "", "gatewayEndpoint": "", "routeKeys": []string{"loft", "loft"}}
	first := r.call("POST", "/relay/provision", bearer, body)
	first.want(t, http.StatusOK, "")
	want := map[string]any{
		"secret": first.text("secret"), "deliveryKey": first.text("deliveryKey"), "secretIssued": true, "tenant": "home",
		"gatewayId": "gw", "instanceId": "gw", "routeKeys": []any{"loft"},
	}
	if diff := cmp.Diff(want, first.body); diff != "" || len(first.text("secret")) != 64 || len(first.text("deliveryKey")) != 64 {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	again := r.call("POST", "/relay/provision", bearer, with(body, map[string]any{"platform": "raven"}))
	if again.code != http.StatusOK || again.text("secret") != first.text("secret") {
		t.Error("the second platform of a boot got another secret, want the same")
	}
	must.Succeed(t, r.db.UpdateGateway(t.Context(), nil, "gw", store.CameOrWent(r.clock.Add(time.Second), true)))
	r.clock = r.clock.Add(2 * time.Second)
	replay := r.call("POST", "/relay/provision", bearer, body)
	want = map[string]any{"secretIssued": false, "tenant": "home", "gatewayId": "gw", "instanceId": "gw", "routeKeys": []any{"loft"}}
	if diff := cmp.Diff(want, replay.body); diff != "" {
		t.Errorf("a replay after the gateway came (-want +got):\n%s", diff)
	}
	if next := r.call("POST", "/relay/provision", r.minted(code), body); len(next.text("secret")) != 64 {
		t.Errorf("the next boot: %s, want a secret", next.raw)
	}
	foreign := r.call("POST", "/relay/provision", bearer, with(body, map[string]any{"gatewayId": "other", "instanceId": "other", "tenant": "away"}))
	foreign.want(t, http.StatusOK, "")
	if g := foreign.text("gatewayId"); g == "other" || foreign.text("tenant") != "home" || foreign.text("instanceId") != "gw" {
		t.Errorf("asserting another tenant's: %s, %s, %s; want a name of its own in its own", g, foreign.text("tenant"), foreign.text("instanceId"))
	}
	for name, url := range map[string]string{"a wake URL of no use": "ftp://x", "one that is too long": "https://x.example/" + strings.Repeat("x", 3000)} {
		warned := r.call("POST", "/relay/provision", bearer, with(body, map[string]any{"wakeUrl": url}))
		if list, ok := warned.body["warnings"].([]any); warned.code != http.StatusOK || !ok || len(list) != 1 {
			t.Errorf("%s: %d %s, want 200 and a warning", name, warned.code, warned.raw)
		}
	}
	_, code = r.enrollment(manage.Enroll{Tenant: "home"})
	r.call("POST", "/relay/provision", r.minted(code), body).want(t, http.StatusForbidden, "forbidden")
}

func TestIdentity(t *testing.T) {
	r := newRig(t, identity.Options{})
	code := r.code("gw")
	resp := r.call("GET", "/relay/identity/"+code, "", nil)
	resp.want(t, http.StatusOK, "")
	want := map[string]any{"access_token": resp.text("access_token"), "token_type": "Bearer", "expires_in": 300.0}
	if diff := cmp.Diff(want, resp.body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	body := map[string]any{"gatewayId": "gw", "platform": "pigeon"}
	r.call("POST", "/relay/provision", resp.text("access_token"), body).want(t, http.StatusOK, "")
	posted := r.call("POST", "/relay/identity/"+code, "", nil) // as to an identity provider
	posted.want(t, http.StatusOK, "")
	r.call("POST", "/relay/provision", posted.text("access_token"), body).want(t, http.StatusOK, "")
	for name, path := range map[string]string{
		"none": "/relay/identity/", "no slash": "/relay/identity", "unknown": "/relay/identity/" + strings.Repeat("A", 43), "short": "/relay/identity/x",
		"deeper": "/relay/identity/" + code + "/", "in a folder": "/relay/identity/x/" + code, "encoded": "/relay/identity/%2F" + code[1:],
	} {
		t.Run(name, func(t *testing.T) { r.call("GET", path, "", nil).want(t, http.StatusNotFound, "not found") })
	}
	head := r.call("HEAD", "/relay/identity/"+code, "", nil)
	head.want(t, http.StatusMethodNotAllowed, "method not allowed")
	if _, err := r.svc.DropIdentity(t.Context(), audit.Actor{}, manage.Named{Name: "gw"}); err != nil {
		t.Fatal(err)
	}
	r.call("GET", "/relay/identity/"+code, "", nil).want(t, http.StatusNotFound, "not found")
	r.call("POST", "/relay/provision", resp.text("access_token"), body).want(t, http.StatusUnauthorized, "unauthorized")
}
