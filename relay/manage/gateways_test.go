package manage_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
)

// keysOf are the JSON keys of v.
func keysOf(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEnrolledShape(t *testing.T) { // invariant 4
	w := newWorld(t, nil, newBird("pigeon", "1"), newBird("pigeon", "2"), newBird("raven", "3"))
	e, err := w.Enroll(t.Context(), system, manage.Enroll{Name: "home", WakeURL: "https://home.example/wake"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"gatewayId": "home", "instanceId": "home", "tenant": "home", "secret": e.Secret, "deliveryKey": e.DeliveryKey,
		"url": "https://relay.example.net",
		"env": map[string]any{
			"GATEWAY_RELAY_URL": "https://relay.example.net", "GATEWAY_RELAY_ID": "home",
			"GATEWAY_RELAY_SECRET": e.Secret, "GATEWAY_RELAY_DELIVERY_KEY": e.DeliveryKey,
			"GATEWAY_RELAY_PLATFORM":  "pigeon", // two of them: no bot id, which stands for both
			"GATEWAY_RELAY_PLATFORMS": "pigeon,raven",
			"GATEWAY_RELAY_BOT_IDS":   `{"raven":{"botId":"3"}}`,
			"GATEWAY_RELAY_WAKE_URL":  "https://home.example/wake", "GATEWAY_ALLOW_ALL_USERS": "true",
			"HERMES_GATEWAY_BUSY_ACK_ENABLED": "false",
		},
	}
	if diff := cmp.Diff(want, keysOf(t, e)); diff != "" {
		t.Errorf("enrolled (-want +got):\n%s", diff)
	}
	lines := strings.Join(e.EnvLines(), "\n")
	for name, value := range e.Env {
		if !strings.Contains(lines, name+"="+value) && !strings.Contains(lines, name+"='"+value+"'") {
			t.Errorf("%s is missing in:\n%s", name, lines)
		}
	}
	if w.inDatabase(t, e.Secret) || w.inDatabase(t, e.DeliveryKey) { // invariant 1
		t.Error("a credential lies in the database in the clear")
	}
	if _, v, err := w.auth.Verify(t.Context(), token.Mint("home", relay.NewSecret([]byte(e.Secret)), time.Time{})); v != token.Valid || err != nil {
		t.Errorf("a token of the new gateway: %s, %v", v, err)
	}
}

func TestEnrollWithoutBotsNamesNone(t *testing.T) {
	w := newWorld(t, nil)
	e, err := w.Enroll(t.Context(), system, manage.Enroll{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"GATEWAY_RELAY_PLATFORM", "GATEWAY_RELAY_BOT_IDS", "GATEWAY_RELAY_WAKE_URL"} {
		if v, ok := e.Env[name]; ok {
			t.Errorf("%s=%s, want none", name, v)
		}
	}
}

func TestEnrollRefusals(t *testing.T) { // invariant 3
	for name, tc := range map[string]struct {
		args manage.Enroll
		want manage.Why
		says string
	}{
		"an existing name":           {manage.Enroll{Name: "home"}, manage.Exists, "gateway rotate home"},
		"no name":                    {manage.Enroll{}, manage.Usage, "name"},
		"a name with a blank":        {manage.Enroll{Name: "a b"}, manage.Usage, "name"},
		"a tenant with a slash":      {manage.Enroll{Name: "a", Tenant: "a/b"}, manage.Usage, "tenant"},
		"a wake URL of a file":       {manage.Enroll{Name: "a", WakeURL: "file:///x"}, manage.Usage, "wake URL"},
		"a wake URL without host":    {manage.Enroll{Name: "a", WakeURL: "http://"}, manage.Usage, "wake URL"},
		"a wake URL to ourselves":    {manage.Enroll{Name: "a", WakeURL: "https://inside.example/"}, manage.Usage, "it points inside"},
		"a wake URL with password":   {manage.Enroll{Name: "a", WakeURL: "http://u:p@h"}, manage.Usage, "wake URL"},
		"a revoked one's new tenant": {manage.Enroll{Name: "gone", Tenant: "other"}, manage.Exists, "--tenant home"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.enroll(t, "home", "gone")
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "gone"}); err != nil {
				t.Fatal(err)
			}
			_, err := w.Enroll(t.Context(), system, tc.args)
			wantRefusal(t, err, tc.want)
			if refused, ok := errors.AsType[*manage.Error](err); ok && !strings.Contains(refused.Message+words.Help(refused), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
}

func TestEnrollmentTokenIsStoredAsMAC(t *testing.T) { // invariant 1
	w := newWorld(t, nil)
	w.change(func(s *manage.Settings) { s.IdentityURLs = false })
	tok, err := w.EnrollToken(t.Context(), system, manage.Enroll{Name: "home", WakeURL: "https://h.example"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"enrollmentToken": tok.Token, "expiresAt": "2026-11-21T12:15:00Z", "tenant": "home", "gatewayId": "home"}
	if diff := cmp.Diff(want, keysOf(t, tok)); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	if ok, err := regexp.MatchString(`^[a-z][a-z2-7]{51}$`, tok.Token); !ok || err != nil {
		t.Errorf("a token of %d characters has another form", len(tok.Token))
	}
	if w.inDatabase(t, tok.Token) {
		t.Error("the token lies in the database in the clear")
	}
	got, err := w.db.Codes.Get(t.Context(), store.EnrollCode, w.vault.MAC("enrollment", relay.NewSecret([]byte(tok.Token))))
	if err != nil || got.Gateway != "home" || got.WakeURL != "https://h.example" || !got.ExpiresAt.Equal(tok.ExpiresAt) {
		t.Errorf("stored %+v, %v", got, err)
	}
	w.enroll(t, "home")
	_, err = w.EnrollToken(t.Context(), system, manage.Enroll{Name: "home"})
	wantRefusal(t, err, manage.Exists)
}

// TestOneGatewayOfTwoIsConnected: of an instance's gateways only that shows as connected which serves it.
func TestOneGatewayOfTwoIsConnected(t *testing.T) {
	w := newWorld(t, &server{connected: "home", serving: "home"})
	w.enroll(t, "home")
	if err := w.db.Enroll(t.Context(), nil, store.Gateway{ID: "attic"}, store.Instance{ID: "home", Tenant: "home"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]manage.State{"home": manage.Connected, "attic": manage.Away} {
		if g, err := w.Gateway(t.Context(), manage.Named{Name: name}); err != nil || g.State != want {
			t.Errorf("%s is %s, %v; want %s", name, g.State, err, want)
		}
	}
}

func TestGatewayLife(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "attic")
	all, err := w.Gateways(t.Context(), struct{}{})
	if err != nil || len(all) != 2 || all[0].ID != "attic" {
		t.Fatalf("Gateways() = %+v, %v; want attic and home", all, err)
	}
	rotated, err := w.Rotate(t.Context(), system, manage.Named{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	if rotated.DeliveryKey == "" || rotated.Env["GATEWAY_RELAY_SECRET"] != rotated.Secret {
		t.Error("rotate does not print what enroll prints")
	}
	got, err := w.Gateway(t.Context(), manage.Named{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	got.Holds = nil // holdings_test.go
	want := map[string]any{
		"gatewayId": "home", "instanceId": "home", "tenant": "home", "state": "away", "createdAt": "2026-11-21T12:00:00Z", "secrets": 2.0,
	}
	if diff := cmp.Diff(want, keysOf(t, got)); diff != "" {
		t.Errorf("gateway (-want +got):\n%s", diff)
	}
	revoked, err := w.Revoke(t.Context(), system, manage.Named{Name: "home"})
	if err != nil || revoked.State != manage.Revoked || revoked.Secrets != 0 {
		t.Errorf("Revoke() = %+v, %v", revoked, err)
	}
	if diff := cmp.Diff([]bus.Note{bus.Revoked{Gateway: "home"}}, w.notes); diff != "" { // invariant 2
		t.Errorf("published (-want +got):\n%s", diff)
	}
	_, err = w.Rotate(t.Context(), system, manage.Named{Name: "home"})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.Link(t.Context(), system, manage.LinkFor{Name: "home"})
	wantRefusal(t, err, manage.NotFound)
	for _, op := range []func() error{
		func() error { _, err := w.Gateway(t.Context(), manage.Named{Name: "nobody"}); return err },
		func() error { _, err := w.Rotate(t.Context(), system, manage.Named{Name: "nobody"}); return err },
		func() error { _, err := w.Revoke(t.Context(), system, manage.Named{Name: "nobody"}); return err },
	} {
		wantRefusal(t, op(), manage.NotFound)
	}
	w.enroll(t, "home") // a revoked name is free again
}

// TestAnInstanceStandsForItsOnlyGateway: a gateway that provisions itself brings its own name, and the operator knows the agent's.
func TestAnInstanceStandsForItsOnlyGateway(t *testing.T) {
	w := newWorld(t, nil)
	w.provision(t, boot("pigeon"))
	if g, err := w.Gateway(t.Context(), manage.Named{Name: "home"}); err != nil || g.ID != "gw-box" || g.Holds == nil {
		t.Errorf("the only gateway of home: %+v, %v", g, err)
	}
	second := boot("pigeon")
	second.Gateway = "gw-shed"
	w.provision(t, second)
	_, err := w.Gateway(t.Context(), manage.Named{Name: "home"})
	wantRefusal(t, err, manage.NotFound)
	if err == nil || !strings.Contains(err.Error(), "gw-box, gw-shed") {
		t.Errorf("one of two: %v, want their names", err)
	}
	_, err = w.Revoke(t.Context(), system, manage.Named{Name: "home"})
	wantRefusal(t, err, manage.NotFound)
	if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "gw-box"}); err != nil {
		t.Fatal(err)
	}
	if g, err := w.Gateway(t.Context(), manage.Named{Name: "home"}); err != nil || g.ID != "gw-shed" {
		t.Errorf("the gateway of home that is not revoked: %+v, %v", g, err)
	}
}
