package api

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// sample is a request that succeeds, and what can be wrong with it.
type sample struct {
	method string
	path   string
	bearer func(*rig) string
	// body is a valid one; nil for a route without.
	body func(*rig) map[string]any
	// required must be there.
	required []string
	// wrong are values of the wrong type or form, and what is said about them.
	wrong map[string]wrong
}

type wrong struct {
	value any
	says  string
}

// with is a copy of m with more members.
func with(m, more map[string]any) map[string]any {
	out := maps.Clone(m)
	maps.Copy(out, more)
	return out
}

func always(m map[string]any) func(*rig) map[string]any {
	return func(*rig) map[string]any { return m }
}

// samples are all routes.
func samples() map[string]sample {
	gw := func(r *rig) string { return r.gw("gw") }
	long := strings.Repeat("x", relay.MaxName+1)
	many := make([]string, 1001)
	for i := range many {
		many[i] = "c"
	}
	people := make([]map[string]any, 1001)
	for i := range people {
		people[i] = map[string]any{"platform": "pigeon", "userId": "u"}
	}
	chat := map[string]any{"platform": "pigeon", "chatId": "loft"}
	chatFaults := map[string]wrong{
		"platform": {7, "platform: want a string"},
		"chatId":   {-100500, "chatId: want a string"},
		"scopeId":  {long, "scopeId: longer than 128 bytes"},
	}
	return map[string]sample{
		"enroll": {
			method: "POST", path: "/relay/enroll", bearer: func(*rig) string { return "" },
			body: func(r *rig) map[string]any {
				et, _ := r.enrollment(manage.Enroll{Name: "new", Tenant: "home"})
				return map[string]any{"enrollmentToken": et, "gatewayId": "whatever"}
			},
			required: []string{"enrollmentToken", "gatewayId"},
			wrong: map[string]wrong{
				"enrollmentToken": {1, "enrollmentToken: want a string"},
				"gatewayId":       {strings.Repeat("x", maxText+1), "gatewayId: longer than 2048 bytes"},
			},
		},
		"provision": {
			method: "POST", path: "/relay/provision", bearer: func(r *rig) string { return r.ambient("gw") },
			body: always(map[string]any{
				"gatewayId": "gw", "platform": "pigeon", "botId": "", "gatewayEndpoint": "", "routeKeys": []string{"loft"},
			}),
			required: []string{"gatewayId", "platform"},
			wrong: map[string]wrong{
				"gatewayId":  {[]string{"gw"}, "gatewayId: want a string"},
				"platform":   {true, "platform: want a string"},
				"instanceId": {12, "instanceId: want a string"},
				"wakeUrl":    {map[string]any{}, "wakeUrl: want a string"},
				"routeKeys":  {many, "routeKeys: more than 1000"},
				// No use is made of these.
				"botId":           {777, "botId: want a string"},
				"gatewayEndpoint": {[]any{}, "gatewayEndpoint: want a string"},
				"displayName":     {true, "displayName: want a string"},
			},
		},
		"policy": {
			method: "POST", path: "/relay/policy", bearer: gw,
			body: always(map[string]any{
				"platform": "pigeon", "requireAddress": false, "freeResponseScopes": []string{"loft"}, "allowOtherBots": true,
			}),
			required: []string{"platform", "requireAddress", "freeResponseScopes", "allowOtherBots"},
			wrong: map[string]wrong{
				"platform":           {"a b", "platform: want no blanks and no control characters"},
				"requireAddress":     {"false", "requireAddress: want true or false"},
				"freeResponseScopes": {many, "freeResponseScopes: more than 1000"},
				"allowOtherBots":     {0, "allowOtherBots: want true or false"},
			},
		},
		"link": {
			method: "POST", path: "/manage/link", bearer: gw,
			body:  always(map[string]any{}),
			wrong: map[string]wrong{"platform": {[]any{}, "platform: want a string"}, "commands": {[]any{1}, "commands[0]: want a string"}},
		},
		"scope": {
			method: "POST", path: "/manage/scope", bearer: gw,
			body:     func(r *rig) map[string]any { r.live.manages["loft"] = loft; return chat },
			required: []string{"platform", "chatId"}, wrong: chatFaults,
		},
		"scope release": {
			method: "POST", path: "/manage/scope/release", bearer: gw,
			body: func(r *rig) map[string]any {
				if _, err := r.svc.Claim(r.t.Context(), audit.Actor{}, manage.Scope{Name: "gw", Platform: "pigeon", Chat: "loft"}); err != nil {
					r.t.Fatal(err)
				}
				return chat
			},
			required: []string{"platform", "chatId"}, wrong: chatFaults,
		},
		"principal": {
			method: "POST", path: "/manage/principal", bearer: gw,
			body: always(map[string]any{
				"policy": "allow-list", "allow": []any{map[string]any{"platform": "pigeon", "userId": "eve", "name": "Eve"}},
			}),
			required: []string{"policy"},
			wrong:    map[string]wrong{"policy": {1, "policy: want a string"}, "allow": {people, "allow: more than 1000"}},
		},
		"quiet": {
			method: "POST", path: "/manage/quiet", bearer: gw,
			body: always(map[string]any{"hours": "22:00-07:00", "zone": "Europe/Berlin"}),
			wrong: map[string]wrong{
				"hours": {7, "hours: want a string"}, "zone": {[]any{}, "zone: want a string"},
			},
		},
		"dm-default": {
			method: "POST", path: "/manage/dm-default", bearer: gw,
			body:     always(map[string]any{"platform": "pigeon", "userId": "ann"}),
			required: []string{"platform", "userId"},
			wrong:    map[string]wrong{"platform": {nil, "platform: missing"}, "userId": {42, "userId: want a string"}},
		},
		"deprovision": {method: "POST", path: "/manage/deprovision", bearer: gw, body: always(map[string]any{})},
		"self":        {method: "GET", path: "/manage/self", bearer: gw},
	}
}

var loft = relay.Place{Platform: "pigeon", Chat: "loft"}

// TestEveryRouteHasASample: what is served is what the table of operations says, and the token endpoint.
func TestEveryRouteHasASample(t *testing.T) {
	var sampled, served, operations []string
	for _, s := range samples() {
		sampled = append(sampled, s.method+" "+s.path)
	}
	for path, ro := range byPath() {
		if path != "/relay/identity/" {
			served = append(served, strings.Join(ro.methods, "|")+" "+path)
		}
	}
	for _, op := range ops.All() {
		if op.Route != "" {
			operations = append(operations, op.Route)
		}
	}
	for _, all := range [][]string{sampled, served, operations} {
		slices.Sort(all)
	}
	if !slices.Equal(sampled, operations) || !slices.Equal(served, operations) {
		t.Errorf("samples of %v, served %v; want of %v", sampled, served, operations)
	}
}

func TestBadRequests(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, identity.Options{})
			bearer := s.bearer(r)
			var body map[string]any
			if s.body != nil {
				body = s.body(r)
			}
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST"} {
				if method == s.method {
					continue
				}
				resp := r.call(method, s.path, bearer, body)
				resp.want(t, http.StatusMethodNotAllowed, "method not allowed")
				if got := resp.header.Get("Allow"); got != s.method {
					t.Errorf("%s: Allow: %q, want %q", method, got, s.method)
				}
			}
			for _, path := range []string{"/" + s.path, s.path + "/", "/x/.." + s.path, s.path + "/x", strings.Replace(s.path, "/r", "/%72", 1), strings.Replace(s.path, "/m", "/%6d", 1)} {
				if path != s.path {
					r.call(s.method, path, bearer, body).want(t, http.StatusNotFound, "not found")
				}
			}
			browser := httptest.NewRequestWithContext(t.Context(), s.method, "https://relay.example.net"+s.path, strings.NewReader("{}"))
			browser.Header.Set("Authorization", "Bearer "+bearer)
			browser.Header.Set("Origin", "https://relay.example.net")
			r.send(browser).want(t, http.StatusForbidden, "browsers are not served here")
			if s.body != nil {
				badBodies(t, r, s, bearer, body)
			}

			// None of that has used anything up or changed anything.
			if body == nil {
				r.call(s.method, s.path, bearer, nil).want(t, http.StatusOK, "")
				return
			}
			r.call(s.method, s.path, bearer, with(body, map[string]any{
				"instanceId": "gw", "tenant": "away", "unknown": map[string]any{"deep": []any{1}}, "Platform": 7, "USERID": 8,
			})).want(t, http.StatusOK, "")
		})
	}
}

// badBodies are refused with 400 or 413.
func badBodies(t *testing.T, r *rig, s sample, bearer string, body map[string]any) {
	const noObject = "the body must be a JSON object"
	for sort, raw := range map[string]string{
		"none": "", "blank": " \n", "null": "null", "a list": "[]", "a string": `"{}"`, "a number": "1", "cut": `{"a":`, "trailing": `{} x`,
		"two": `{}{}`, "not UTF-8": "{\"a\":\"\xff\"}", "deep": strings.Repeat("[", 20_000), "not JSON": "platform=pigeon",
	} {
		t.Run("body: "+sort, func(t *testing.T) { r.call(s.method, s.path, bearer, raw).want(t, http.StatusBadRequest, noObject) })
	}
	big := with(body, map[string]any{"padding": strings.Repeat("x", maxBody)})
	r.call(s.method, s.path, bearer, big).want(t, http.StatusRequestEntityTooLarge, "the body is larger than 64 KiB")
	for _, name := range s.required {
		less := maps.Clone(body)
		delete(less, name)
		for without, b := range map[string]map[string]any{"": less, "null": with(body, map[string]any{name: nil})} {
			resp := r.call(s.method, s.path, bearer, b)
			if resp.code != http.StatusBadRequest || !strings.HasPrefix(resp.text("error"), name+": missing") {
				t.Errorf("without %s (%s): %d %s, want 400 that names it", name, without, resp.code, resp.raw)
			}
		}
	}
	for name, w := range s.wrong {
		r.call(s.method, s.path, bearer, with(body, map[string]any{name: w.value})).want(t, http.StatusBadRequest, w.says)
	}
}

func TestBadCredentials(t *testing.T) {
	for name, s := range samples() {
		if name == "enroll" { // its credential is in the body
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := newRig(t, identity.Options{})
			var body map[string]any
			if s.body != nil {
				body = s.body(r)
			}
			good, code := s.bearer(r), r.code("other")
			unnamed := r.minted(code)
			r.clock = r.clock.Add(time.Hour)
			fresh := r.gw("gw")
			for name, bearer := range map[string]string{
				"none":                         "",
				"garbage":                      "garbage",
				"expired":                      good,
				"a wrong secret":               token.Mint("gw", relay.NewSecret([]byte("x")), r.clock.Add(time.Minute)),
				"an unknown gateway":           token.Mint("nobody", r.secret["gw"], r.clock.Add(time.Minute)),
				"altered":                      fresh[:len(fresh)-2] + "xx",
				"expired identity token":       unnamed,
				"an identity code":             code,
				"a secret":                     r.secret["gw"].RevealString(),
				"two dots, and not to managed": "a.b.c",
			} {
				t.Run(name, func(t *testing.T) {
					r.from = r.from.Next() // no address fails too often
					resp := r.call(s.method, s.path, bearer, body)
					resp.want(t, http.StatusUnauthorized, "unauthorized")
					if resp.header.Get("WWW-Authenticate") != "Bearer" {
						t.Errorf("headers %v, want to be told what to bring", resp.header)
					}
				})
			}
		})
	}
}
