package manage_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
)

// boot is what the gateway box says of itself, with an identity that names the instance home.
func boot(p relay.PlatformID) manage.Provision {
	return manage.Provision{Tenant: "home", Instance: "home", Gateway: "gw-box", Platform: p, RouteKeys: []string{}}
}

// provision is Provision of what the test takes for granted.
func (w *world) provision(t *testing.T, p manage.Provision) manage.Provisioned {
	t.Helper()
	out, err := w.Provision(t.Context(), system, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verdict is what a bearer under the secret is worth.
func (w *world) verdict(t *testing.T, g relay.GatewayID, secret string) (token.Peer, token.Verdict) {
	t.Helper()
	p, v, err := w.auth.Verify(t.Context(), token.Mint(g, relay.NewSecret([]byte(secret)), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

func TestAllCallsOfOneBootAgree(t *testing.T) {
	w := newWorld(t, nil)
	first := w.provision(t, boot("pigeon"))
	want := map[string]any{
		"secretIssued": true, "secret": first.Secret, "deliveryKey": first.DeliveryKey, "tenant": "home",
		"gatewayId": "gw-box", "instanceId": "home", "routeKeys": []any{},
	}
	if diff := cmp.Diff(want, keysOf(t, first)); diff != "" || len(first.Secret) != 64 || len(first.DeliveryKey) != 64 {
		t.Errorf("provisioned (-want +got):\n%s", diff)
	}
	w.now = noon.Add(119 * time.Second)
	for _, p := range []relay.PlatformID{"raven", "relay", "nobody-hosts-this"} {
		if got := w.provision(t, boot(p)); !cmp.Equal(first, got) {
			t.Errorf("%s: another answer than the first call's", p)
		}
	}
	if _, v := w.verdict(t, "gw-box", first.Secret); v != token.Valid {
		t.Errorf("the secret is %s", v)
	}
	if w.inDatabase(t, first.Secret) || w.inDatabase(t, first.DeliveryKey) { // invariant 1
		t.Error("a credential lies in the database in the clear")
	}
}

func TestTheNextBootGetsANewSecret(t *testing.T) {
	w := newWorld(t, nil)
	first := w.provision(t, boot("pigeon"))
	w.now = noon.Add(2 * time.Minute)
	second := w.provision(t, boot("pigeon"))
	if second.Secret == first.Secret || second.DeliveryKey != first.DeliveryKey {
		t.Error("want a new secret and the same delivery key")
	}
	peer, v := w.verdict(t, "gw-box", second.Secret)
	if _, old := w.verdict(t, "gw-box", first.Secret); v != token.Valid || old != token.Valid {
		t.Errorf("the new one is %s, the old one %s; want both valid until the new one is used", v, old)
	}
	if err := w.auth.Used(t.Context(), peer, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	if _, old := w.verdict(t, "gw-box", first.Secret); old != token.Unauthorized {
		t.Errorf("the old secret is %s after the new one was used", old)
	}
}

func TestRacingCallsAgree(t *testing.T) {
	w := newWorld(t, nil)
	for _, at := range []time.Time{noon, noon.Add(time.Hour)} { // a new gateway, and a new boot
		w.now = at
		secrets := make([]string, 16)
		var wg sync.WaitGroup
		for i := range secrets {
			wg.Go(func() {
				out, err := w.Provision(t.Context(), system, boot("pigeon"))
				if err != nil {
					t.Error(err)
				}
				secrets[i] = out.Secret
			})
		}
		wg.Wait()
		for _, s := range secrets {
			if s == "" || s != secrets[0] {
				t.Fatal("two calls got different secrets")
			}
		}
	}
}

func TestASecretInUseIsNotGivenAgain(t *testing.T) {
	live := &server{}
	w := newWorld(t, live)
	seen := func() {
		t.Helper()
		if err := w.db.UpdateGateway(t.Context(), nil, "gw-box", store.CameOrWent(w.now, true)); err != nil {
			t.Fatal(err)
		}
	}
	first := w.provision(t, boot("pigeon"))
	w.now = noon.Add(time.Second)
	live.connected = "home"
	if got := w.provision(t, boot("pigeon")); got.Secret != first.Secret {
		t.Error("a session from before the secret counts as its use")
	}
	seen()
	got := w.provision(t, boot("pigeon"))
	want := map[string]any{
		"secretIssued": false, "tenant": "home", "gatewayId": "gw-box", "instanceId": "home", "routeKeys": []any{},
	}
	if diff := cmp.Diff(want, keysOf(t, got)); diff != "" {
		t.Errorf("a replay while connected (-want +got):\n%s", diff)
	}
	live.silent = true
	if got := w.provision(t, boot("pigeon")); got.Secret != first.Secret {
		t.Error("the socket of a host that lost power keeps the gateway from its secret")
	}
	live.silent, live.serving = false, "gw-attic"
	if got := w.provision(t, boot("pigeon")); got.Secret != first.Secret {
		t.Error("another gateway of the instance keeps this one from its secret")
	}
	live.serving = ""
	// The next boot, while the former process is connected and comes back once more.
	w.now = noon.Add(time.Hour)
	second := w.provision(t, boot("pigeon"))
	seen()
	if got := w.provision(t, boot("raven")); got.Secret != second.Secret || got.Secret == "" {
		t.Error("the session of the former process counts as a use of the new secret")
	}
	live.connected = ""
	if got := w.provision(t, boot("raven")); got.Secret != second.Secret {
		t.Error("a gateway that is away does not get its secret")
	}
}

// Host names that come and go do not cost the gateway that is connected its credential.
func TestTheConnectedGatewayIsNotForgotten(t *testing.T) {
	live := &server{}
	w := newWorld(t, live)
	p := boot("pigeon")
	w.provision(t, p)
	live.connected, live.serving = "home", "gw-box"
	for n := range 20 {
		w.now = w.now.Add(time.Second)
		p.Gateway = relay.GatewayID(fmt.Sprintf("gw-%d", n))
		w.provision(t, p)
	}
	if _, err := store.Only(w.db.Gateways(t.Context(), "gw-box")); err != nil {
		t.Error(err)
	}
}

// A gateway fetches its identity once for each start, so an identity from before tells a replay.
func TestAStartThatIsOverGetsNothing(t *testing.T) {
	w := newWorld(t, &server{})
	start := func() manage.Provision { p := boot("pigeon"); p.Began = w.now; return p }
	withheld := func(what string, p manage.Provision, want bool) {
		t.Helper()
		if got := w.provision(t, p); got.SecretIssued == want || (got.Secret == "") != want || (got.DeliveryKey == "") != want {
			t.Errorf("%s: issued %t, want %t", what, got.SecretIssued, !want)
		}
	}
	first := start()
	w.now = w.now.Add(time.Millisecond)
	one := w.provision(t, first)
	withheld("another platform of the start", first, false)
	w.now = w.now.Add(time.Second)
	if err := w.db.UpdateGateway(t.Context(), nil, "gw-box", store.CameOrWent(w.now, true)); err != nil {
		t.Fatal(err)
	}
	withheld("the start again, after the gateway came and went", first, true)
	next := start()
	if got := w.provision(t, next); got.Secret != one.Secret {
		t.Error("a start soon after gets another secret than the one that is two seconds old")
	}
	w.now = w.now.Add(-5 * time.Second)
	withheld("a start after the clock was set back", start(), false)
	w.now = next.Began.Add(2*time.Minute - time.Nanosecond)
	withheld("the end of a long start", next, false)
	w.now = w.now.Add(time.Nanosecond)
	withheld("a start of two minutes ago", next, true)
	g, err := store.Only(w.db.Gateways(t.Context(), "gw-box"))
	if err != nil || len(g.Secrets) != 2 {
		t.Errorf("%d secrets, %v: a replay made one", len(g.Secrets), err)
	}
	withheld("the next start", start(), false)
}

func TestWhoseTheGatewayIs(t *testing.T) {
	for name, tc := range map[string]struct {
		call         manage.Provision
		gateway      relay.GatewayID // a trailing "*" stands for a variation
		instance     relay.InstanceID
		refused      manage.Why
		alsoInstance bool // the instance's name is the gateway's
	}{
		"the identity's instance": {
			call: manage.Provision{Tenant: "home", Instance: "attic", Gateway: "gw", AssertedInstance: "x"}, gateway: "gw", instance: "attic",
		},
		"the stored gateway's instance": {
			call: manage.Provision{Tenant: "home", Gateway: "one", AssertedInstance: "x"}, gateway: "one", instance: "one",
		},
		"what it says": {
			call: manage.Provision{Tenant: "home", Gateway: "gw", AssertedInstance: "x"}, gateway: "gw", instance: "x",
		},
		"its own name": {
			call: manage.Provision{Tenant: "home", Gateway: "gw"}, gateway: "gw", instance: "gw",
		},
		"a name of another instance": {
			call: manage.Provision{Tenant: "home", Instance: "attic", Gateway: "one"}, gateway: "one-*", instance: "attic",
		},
		"a name of another tenant": {
			call: manage.Provision{Tenant: "family", Gateway: "one"}, gateway: "one-*", alsoInstance: true,
		},
		"a name of another tenant's instance": {
			call: manage.Provision{Tenant: "family", Gateway: "loft"}, gateway: "loft-*", alsoInstance: true,
		},
		"a revoked name of another tenant": {
			call: manage.Provision{Tenant: "family", Gateway: "gone"}, gateway: "gone-*", alsoInstance: true,
		},
		"a long name that is taken": {
			call:    manage.Provision{Tenant: "family", Gateway: relay.GatewayID(strings.Repeat("ä", 64))},
			gateway: relay.GatewayID(strings.Repeat("ä", 60)) + "-*", alsoInstance: true,
		},
		"another tenant's instance": {
			call: manage.Provision{Tenant: "family", Gateway: "gw", AssertedInstance: "one"}, refused: manage.NotFound,
		},
		"another tenant's instance, by a code": {
			call: manage.Provision{Tenant: "family", Instance: "one", Gateway: "gw"}, refused: manage.NotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.enroll(t, "one", "gone", strings.Repeat("ä", 64))
			w.provision(t, manage.Provision{Tenant: "home", Instance: "loft", Gateway: "lofty", Platform: "pigeon"})
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "gone"}); err != nil {
				t.Fatal(err)
			}
			tc.call.Platform = "pigeon"
			got, err := w.Provision(t.Context(), system, tc.call)
			if tc.refused != "" {
				wantRefusal(t, err, tc.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stem, varied := strings.CutSuffix(string(tc.gateway), "*")
			if !strings.HasPrefix(string(got.Gateway), stem) || varied != (got.Gateway != tc.call.Gateway) || len(got.Gateway) > relay.MaxName {
				t.Errorf("gateway %s, want %s", got.Gateway, tc.gateway)
			}
			if tc.alsoInstance {
				tc.instance = relay.InstanceID(got.Gateway)
			}
			if got.Instance != tc.instance || got.Tenant != tc.call.Tenant {
				t.Errorf("instance %s of %s, want %s of %s", got.Instance, got.Tenant, tc.instance, tc.call.Tenant)
			}
			if peer, v := w.verdict(t, got.Gateway, got.Secret); v != token.Valid || peer.Instance != got.Instance || peer.Tenant != got.Tenant {
				t.Errorf("the secret is %s, for %+v", v, peer)
			}
			if again := w.provision(t, tc.call); !cmp.Equal(got, again) {
				t.Errorf("the next call gets %s and another secret, want %s again", again.Gateway, got.Gateway)
			}
		})
	}
}

func TestARevokedGatewayMayProvisionAgain(t *testing.T) {
	w := newWorld(t, nil)
	first := w.provision(t, boot("pigeon"))
	if _, err := w.Deprovision(t.Context(), system, manage.Named{Name: "home"}); err != nil {
		t.Fatal(err)
	}
	if _, v := w.verdict(t, "gw-box", first.Secret); v != token.Unauthorized {
		t.Fatalf("the secret is %s after deprovision", v)
	}
	second := w.provision(t, boot("pigeon"))
	if second.Gateway != "gw-box" || second.Secret == first.Secret {
		t.Errorf("got %s with the same secret: %t", second.Gateway, second.Secret == first.Secret)
	}
	if ids := w.put(t, "home", "e1"); len(ids) != 1 {
		t.Error("its buffer takes nothing")
	}
}

func TestProvisionKeepsWhatIsNotSaid(t *testing.T) {
	w := newWorld(t, nil)
	url := func(s string) *string { return &s }
	for _, step := range []struct {
		name string
		say  *string
		want string
	}{
		{"at the first call", url("https://box.example/wake"), "https://box.example/wake"},
		{"unsaid", nil, "https://box.example/wake"},
		{"changed", url("https://box.example/up"), "https://box.example/up"},
		{"taken back", url(""), ""},
	} {
		p := boot("pigeon")
		p.WakeURL = step.say
		w.provision(t, p)
		i, err := store.Only(w.db.Instances(t.Context(), "home"))
		if err != nil || i.WakeURL != step.want {
			t.Errorf("%s: %q, %v; want %q", step.name, i.WakeURL, err, step.want)
		}
	}
}

func TestProvisionDeclaresRoutes(t *testing.T) {
	w := newWorld(t, nil)
	others := manage.Provision{Tenant: "family", Instance: "kids", Gateway: "gw-kids", Platform: "pigeon", RouteKeys: []string{"tower", "/wecom/kids"}}
	w.provision(t, others)
	for _, step := range []struct {
		name string
		on   relay.PlatformID
		keys []string
		got  []string
		all  []string // the instance's, afterwards
	}{
		{"what is free", "pigeon", []string{"loft", "tower", "-5"}, []string{"loft", "-5"}, []string{"-5", "loft"}},
		{"unsaid", "pigeon", nil, []string{}, []string{"-5", "loft"}},
		{"on another platform", "raven", []string{"tower"}, []string{"tower"}, []string{"-5", "loft", "tower"}},
		{"on no platform", "relay", []string{"loft"}, []string{}, []string{"-5", "loft", "tower"}},
		{"others instead", "pigeon", []string{"nest"}, []string{"nest"}, []string{"nest", "tower"}},
		{"none", "pigeon", []string{}, []string{}, []string{"tower"}},
	} {
		p := boot(step.on)
		p.RouteKeys = step.keys
		if diff := cmp.Diff(step.got, w.provision(t, p).RouteKeys); diff != "" {
			t.Errorf("%s: accepted (-want +got):\n%s", step.name, diff)
		}
		routes, err := w.Routes(t.Context(), manage.Named{Name: "home"})
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{}
		for _, r := range routes {
			keys = append(keys, r.Key)
		}
		if diff := cmp.Diff(step.all, keys); diff != "" {
			t.Errorf("%s: routes (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestProvisionNamesTheUnfitField(t *testing.T) { // invariant 3
	for name, tc := range map[string]struct {
		change func(*manage.Provision)
		field  string
	}{
		"no gateway":           {func(p *manage.Provision) { p.Gateway = "" }, "gatewayId"},
		"a gateway with slash": {func(p *manage.Provision) { p.Gateway = "a/b" }, "gatewayId"},
		"no platform":          {func(p *manage.Provision) { p.Platform = "" }, "platform"},
		"a bad instance":       {func(p *manage.Provision) { p.AssertedInstance = "a b" }, "instanceId"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := boot("pigeon")
			tc.change(&p)
			_, err := w.Provision(t.Context(), system, p)
			wantField(t, err, tc.field)
			if all, err := w.db.Gateways(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("%d gateways were made, %v", len(all), err)
			}
		})
	}
}
