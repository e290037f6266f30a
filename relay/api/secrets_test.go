package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestCredentialsAreToldOnce walks through the life of a gateway (invariant 5).
func TestCredentialsAreToldOnce(t *testing.T) {
	r := newRig(t, identity.Options{})
	secrets := make(map[string]string) // by what they are
	var answers []string               // those that hand out nothing
	call := func(method, path, bearer string, body any, code int) response {
		t.Helper()
		resp := r.call(method, path, bearer, body)
		if resp.code != code {
			t.Fatalf("%s %s: %d %s, want %d", method, path, resp.code, resp.raw, code)
		}
		for what, s := range secrets {
			if strings.Contains(resp.raw, s) {
				t.Errorf("%s %s tells the %s again", method, path, what)
			}
		}
		return resp
	}
	plain := func(method, path, bearer string, body any, code int) {
		t.Helper()
		answers = append(answers, call(method, path, bearer, body, code).raw)
	}
	secrets["enrollment token"], secrets["identity code"] = r.enrollment(manage.Enroll{Name: "kids", Tenant: "home"})

	enrolled := call("POST", "/relay/enroll", "", enrollBody(secrets["enrollment token"], "kids"), http.StatusOK)
	secrets["first secret"], secrets["delivery key"] = enrolled.text("secret"), enrolled.text("deliveryKey")
	plain("POST", "/relay/enroll", "", enrollBody(secrets["enrollment token"], "kids"), http.StatusForbidden)
	plain("POST", "/relay/enroll", "", map[string]any{"enrollmentToken": secrets["enrollment token"], "gatewayId": 1}, http.StatusBadRequest)
	r.clock = r.clock.Add(3 * time.Minute) // a later boot: a new secret, and the same delivery key
	secrets["identity token"] = call("GET", "/relay/identity/"+secrets["identity code"], "", nil, http.StatusOK).text("access_token")
	plain("GET", "/relay/identity/"+secrets["identity code"]+"x", "", nil, http.StatusNotFound)
	plain("POST", "/relay/provision", secrets["identity token"]+"x", nil, http.StatusUnauthorized)

	boot := map[string]any{"gatewayId": "kids", "platform": "pigeon", "routeKeys": []string{"nest"}}
	key := secrets["delivery key"]
	delete(secrets, "delivery key")
	secrets["second secret"] = call("POST", "/relay/provision", secrets["identity token"], boot, http.StatusOK).text("secret")
	secrets["delivery key"] = key

	r.secret["kids"] = relay.NewSecret([]byte(secrets["second secret"]))
	bearer := r.gw("kids")
	secrets["bearer"] = bearer
	secrets["link code"] = call("POST", "/manage/link", bearer, "{}", http.StatusOK).text("code")
	secrets["link code, bare"] = strings.ReplaceAll(secrets["link code"], "-", "")
	r.live.manages["loft"] = loft
	chat := map[string]any{"platform": "pigeon", "chatId": "loft"}
	plain("POST", "/manage/scope", bearer, chat, http.StatusOK)
	plain("POST", "/manage/scope/release", bearer, chat, http.StatusOK)
	plain("POST", "/manage/scope/release", bearer, chat, http.StatusNotFound)
	plain("POST", "/manage/principal", bearer, map[string]any{"policy": "any"}, http.StatusOK)
	plain("POST", "/manage/dm-default", bearer, map[string]any{"platform": "pigeon", "userId": "ann"}, http.StatusNotFound)
	plain("POST", "/relay/policy", bearer, samples()["policy"].body(r), http.StatusOK)
	plain("GET", "/manage/self", bearer, nil, http.StatusOK)
	plain("POST", "/manage/deprovision", bearer, "{}", http.StatusOK)
	plain("POST", "/manage/deprovision", bearer, "{}", http.StatusUnauthorized)

	rows, err := r.db.Audit.List(t.Context(), 0)
	if err != nil || len(rows) < 8 {
		t.Fatalf("%d audit rows, %v; want one per change", len(rows), err)
	}
	audit, err := json.Marshal(rows)
	must.Succeed(t, err)
	for what, s := range secrets {
		if len(s) < 8 {
			t.Fatalf("the %s is %q: nothing to look for", what, s)
		}
		for where, text := range map[string]string{"log": r.log.String(), "audit list": string(audit), "answers": strings.Join(answers, "")} {
			if strings.Contains(text, s) {
				t.Errorf("the %s is in the %s", what, where)
			}
		}
	}
	if len(secrets) != 9 {
		t.Errorf("looked for %v", slices.Sorted(maps.Keys(secrets)))
	}
}
