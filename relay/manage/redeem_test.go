package manage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
)

// enrollToken is EnrollToken of what the test takes for granted.
func (w *world) enrollToken(t *testing.T, e manage.Enroll) manage.EnrollmentToken {
	t.Helper()
	tok, err := w.EnrollToken(t.Context(), system, e)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func redemption(tok string, g relay.GatewayID) manage.EnrollByToken {
	return manage.EnrollByToken{Token: relay.NewSecret([]byte(tok)), Gateway: g}
}

func TestEnrollByToken(t *testing.T) {
	for name, tc := range map[string]struct {
		token manage.Enroll
		says  relay.GatewayID
		want  relay.GatewayID
	}{
		"a token for a gateway": {manage.Enroll{Name: "kids", Tenant: "family", WakeURL: "https://k.example/"}, "gw-box", "kids"},
		"a token for any":       {manage.Enroll{Tenant: "family", WakeURL: "https://k.example/"}, "gw-box", "gw-box"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			tok := w.enrollToken(t, tc.token)
			e := redemption(tok.Token, tc.says)
			e.Tenant = "family"
			got, err := w.EnrollByToken(t.Context(), system, e)
			if err != nil {
				t.Fatal(err)
			}
			if got.Gateway != tc.want || got.Instance != relay.InstanceID(tc.want) || got.Tenant != "family" || got.DeliveryKey == "" {
				t.Errorf("enrolled %s of %s in %s, want %s of family", got.Gateway, got.Instance, got.Tenant, tc.want)
			}
			if _, v := w.verdict(t, got.Gateway, got.Secret); v != token.Valid {
				t.Errorf("the secret is %s", v)
			}
			if i, err := store.Only(w.db.Instances(t.Context(), got.Instance)); err != nil || i.WakeURL != "https://k.example/" {
				t.Errorf("instance %+v, %v; want the token's wake URL", i, err)
			}
			_, err = w.EnrollByToken(t.Context(), system, e)
			wantRefusal(t, err, manage.Forbidden)
		})
	}
}

func TestATokenThatWillNotDoIsRefusedInOneWay(t *testing.T) { // invariant 6
	var words []string
	for name, change := range map[string]func(*world, *manage.EnrollByToken){
		"unknown":                   func(_ *world, e *manage.EnrollByToken) { e.Token = relay.NewSecret([]byte("x")) },
		"empty":                     func(_ *world, e *manage.EnrollByToken) { e.Token = relay.Secret{} },
		"expired":                   func(w *world, _ *manage.EnrollByToken) { w.now = noon.Add(15 * time.Minute) },
		"another tenant's":          func(_ *world, e *manage.EnrollByToken) { e.Tenant = "family" },
		"expired, another tenant's": func(w *world, e *manage.EnrollByToken) { w.now, e.Tenant = noon.Add(time.Hour), "family" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			e := redemption(w.enrollToken(t, manage.Enroll{Name: "kids"}).Token, "kids")
			change(w, &e)
			_, err := w.EnrollByToken(t.Context(), system, e)
			wantRefusal(t, err, manage.Forbidden)
			words = append(words, err.Error())
		})
	}
	for _, word := range words {
		if word != words[0] {
			t.Errorf("%q and %q tell them apart", word, words[0])
		}
	}
}

func TestATokenThatFailsStaysGood(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	w.provision(t, manage.Provision{Tenant: "home", Instance: "attic", Gateway: "gw-attic", Platform: "pigeon"})
	tok := w.enrollToken(t, manage.Enroll{}).Token
	for name, says := range map[string]relay.GatewayID{"a gateway's name": "home", "an agent's name that another gateway serves": "attic"} {
		t.Run(name, func(t *testing.T) {
			_, err := w.EnrollByToken(t.Context(), system, redemption(tok, says))
			wantRefusal(t, err, manage.Exists)
		})
	}
	_, err := w.EnrollByToken(t.Context(), system, redemption(tok, "a b"))
	wantField(t, err, "gatewayId")
	if _, err := w.EnrollByToken(t.Context(), system, redemption(tok, "new")); err != nil {
		t.Error(err)
	}
}

func TestAnIdentityURLComesWithTheToken(t *testing.T) {
	for name, tc := range map[string]struct {
		token   manage.Enroll
		expires time.Time
		env     map[string]string
	}{
		"of a gateway": {
			token: manage.Enroll{Name: "kids", Tenant: "family", WakeURL: "https://k.example/"},
			env: map[string]string{
				"GATEWAY_RELAY_URL": "https://relay.example.net", "GATEWAY_RELAY_WAKE_URL": "https://k.example/",
				"GATEWAY_RELAY_PLATFORMS": "pigeon", "GATEWAY_RELAY_BOT_IDS": `{"pigeon":{"botId":"1"}}`,
			},
		},
		"of any": {
			token: manage.Enroll{Tenant: "family"}, expires: noon.Add(15 * time.Minute),
			env: map[string]string{
				"GATEWAY_RELAY_URL":       "https://relay.example.net",
				"GATEWAY_RELAY_PLATFORMS": "pigeon", "GATEWAY_RELAY_BOT_IDS": `{"pigeon":{"botId":"1"}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, newBird("pigeon", "1"))
			tok := w.enrollToken(t, tc.token)
			tc.env["GATEWAY_RELAY_IDP_TOKEN_URL"] = tok.IdentityURL
			tc.env["HERMES_GATEWAY_BUSY_ACK_ENABLED"] = "false"
			if diff := cmp.Diff(tc.env, tok.Env); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
			lines := slices.DeleteFunc(tok.EnvLines(), func(l string) bool { return strings.HasPrefix(l, "#") })
			if len(lines) != len(tc.env) {
				t.Errorf("%d lines, want %d: %s", len(lines), len(tc.env), lines)
			}
			got := w.code(t, tok.IdentityURL)
			want := store.Code{Kind: store.IdentityCode, Tenant: "family", Instance: relay.InstanceID(tc.token.Name), CreatedAt: noon, ExpiresAt: tc.expires}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// code is the stored identity code behind an identity URL, or the zero value.
func (w *world) code(t *testing.T, url string) store.Code {
	t.Helper()
	code, ok := strings.CutPrefix(url, "https://relay.example.net/relay/identity/")
	if !ok || w.inDatabase(t, code) {
		t.Errorf("identity URL %q; or its code lies in the database in the clear", url)
	}
	c, err := w.db.Codes.Get(t.Context(), store.IdentityCode, identity.CodeMAC(w.vault, code))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return c
}

func TestIdentityURLs(t *testing.T) {
	w := newWorld(t, nil)
	home := manage.Named{Name: "home"}
	_, err := w.Identity(t.Context(), system, home)
	wantRefusal(t, err, manage.NotFound)
	old := w.enrollToken(t, manage.Enroll{Name: "home"})
	if _, err := w.DropIdentity(t.Context(), system, home); err != nil { // nobody has come with it yet
		t.Error(err)
	}
	if got := w.code(t, old.IdentityURL); !cmp.Equal(got, store.Code{}) {
		t.Errorf("a revoked code is %+v", got)
	}
	w.enroll(t, "home")
	var urls []string
	for range 2 {
		u, err := w.Identity(t.Context(), system, home)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"identityUrl": u.URL, "instanceId": "home", "tenant": "home"}
		if diff := cmp.Diff(want, keysOf(t, u)); diff != "" {
			t.Errorf("identity URL (-want +got):\n%s", diff)
		}
		urls = append(urls, u.URL)
	}
	if first, second := w.code(t, urls[0]), w.code(t, urls[1]); first.Instance != "" || second.Instance != "home" || !second.ExpiresAt.IsZero() {
		t.Errorf("the former code is %+v, the newer %+v", first, second)
	}
	if moved, err := w.DropIdentity(t.Context(), system, home); err != nil || moved.Count != 1 {
		t.Errorf("DropIdentity() = %+v, %v", moved, err)
	}
	w.enrollToken(t, manage.Enroll{})
	for _, name := range []string{"home", "nobody", ""} {
		_, err := w.DropIdentity(t.Context(), system, manage.Named{Name: name})
		wantRefusal(t, err, manage.NotFound)
	}
	w.change(func(s *manage.Settings) { s.IdentityURLs = false })
	_, err = w.Identity(t.Context(), system, home)
	wantRefusal(t, err, manage.Usage)
}
