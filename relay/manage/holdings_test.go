package manage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// numbered are networks whose ids are "1", "2" and so on; the chats of the raven's lie in no scope.
func numbered() []platforms.Network {
	check := func(id string) error {
		if id < "0" || id > "9999" {
			return relay.ErrBadCredentials // any error
		}
		return nil
	}
	return []platforms.Network{{Name: "pigeon", Label: "Pigeon", CheckID: check}, {Name: "raven", Label: "Raven", CheckID: check, Unscoped: true}}
}

func TestWhatAGatewayHolds(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	poke := &wake.Poke{At: noon, Status: 502}
	w.change(func(s *manage.Settings) { s.Poke = func(relay.InstanceID) *wake.Poke { return poke } })
	w.enroll(t, "attic")
	if _, err := w.Enroll(t.Context(), system, manage.Enroll{Name: "home", WakeURL: "https://home.example/wake"}); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	second := func(_ any, err error) error { return err }
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	must(second(w.Bind(t.Context(), system, ann)))
	must(second(w.SetDMDefault(t.Context(), system, ann)))
	must(second(w.Bind(t.Context(), system, manage.Bind{Name: "attic", Platform: "pigeon", User: "bea"})))
	must(second(w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"})))
	must(second(w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "home", Policy: relay.AnyOne})))
	must(second(w.SetRelevance(t.Context(), system, manage.SetRelevance{Name: "home", Platform: "pigeon", AllowBots: new(true)})))
	must(second(w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: "home", Hours: "12:30-13:30", Zone: "Europe/Berlin"})))
	must(second(w.Identity(t.Context(), system, manage.Named{Name: "home"})))
	w.put(t, "home", "e1", "e2")
	g, err := w.Gateway(t.Context(), manage.Named{Name: "home"})
	must(err)
	want := &manage.Holdings{
		People: []manage.Binding{{Platform: "pigeon", User: "ann", Instance: "home", Tenant: "home", BoundAt: noon, DMDefault: true, DirectTo: "home"}},
		Grants: []manage.Grant{{Platform: "pigeon", Chat: "loft", Instance: "home", Tenant: "home", GrantedAt: noon}},
		Rules: manage.Rules{
			Principal: manage.Principal{Instance: "home", Policy: relay.AnyOne, Allow: []store.Person{}},
			Quiet:     manage.Quiet{Instance: "home", Hours: "12:30-13:30", Zone: "Europe/Berlin", Now: noon, Until: noon.Add(30 * time.Minute)},
		},
		Policies: []manage.Relevance{{
			Instance: "home", Platform: "pigeon", RequireAddress: true, Free: []relay.ChatID{}, AllowBots: true, Context: relay.ContextGranted,
		}},
		Identity: true, WakeURL: "https://home.example/wake", Poke: poke, Waiting: 2, Gateways: []relay.GatewayID{},
	}
	if diff := cmp.Diff(want, g.Holds); diff != "" {
		t.Errorf("holds (-want +got):\n%s", diff)
	}
	if p, err := w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "home"}); err != nil || p.Policy != relay.AnyOne {
		t.Errorf("looked at, the principal is %+v, %v", p, err)
	}
	_, err = w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "nobody"})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "home", Allow: []store.Person{{Platform: "pigeon", User: "ann"}}})
	wantField(t, err, "allow")
	must(second(w.Revoke(t.Context(), system, manage.Named{Name: "home"})))
	g, err = w.Gateway(t.Context(), manage.Named{Name: "home"})
	must(err)
	if g.Holds == nil || len(g.Holds.People)+len(g.Holds.Grants) > 0 || g.Holds.Identity || g.Holds.Waiting > 0 {
		t.Errorf("revoked, it holds %+v", g.Holds)
	}
}

func TestAnIdentityURLThatExpiredIsNone(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	c := store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "home", CreatedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	if err := w.db.Codes.Put(t.Context(), nil, []byte("mac"), c); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]bool{noon: true, noon.Add(time.Hour): false} {
		w.now = at
		if g, err := w.Gateway(t.Context(), manage.Named{Name: "home"}); err != nil || g.Holds.Identity != want {
			t.Errorf("at %s: %+v, %v", at, g.Holds, err)
		}
	}
}

func TestWhatCanHaveNoEffectIsRefusedOrWarnedOf(t *testing.T) {
	bad, good := []relay.ChatID{"garden"}, []relay.ChatID{"7"}
	for name, tc := range map[string]struct {
		do      func(*world) ([]string, error)
		refused string // the field; empty: done
		warned  bool
	}{
		"a user who cannot be": {func(w *world) ([]string, error) {
			b, err := w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"})
			return b.Warnings, err
		}, "userId", false},
		"a user of a bot": {func(w *world) ([]string, error) {
			b, err := w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "7"})
			return b.Warnings, err
		}, "", false},
		"a user of no bot": {func(w *world) ([]string, error) {
			b, err := w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "raven", User: "7"})
			return b.Warnings, err
		}, "", true},
		"somebody allowed who cannot be": {func(w *world) ([]string, error) {
			p, err := w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "home", Policy: relay.AllowList, Allow: []store.Person{{Platform: "raven", User: "ann"}}})
			return p.Warnings, err
		}, "allow", false},
		"somebody allowed of no bot": {func(w *world) ([]string, error) {
			p, err := w.SetPrincipal(t.Context(), system, manage.SetPrincipal{Name: "home", Policy: relay.AllowList, Allow: []store.Person{{Platform: "raven", User: "7"}, {Platform: "raven", User: "8"}}})
			return p.Warnings, err
		}, "", true},
		"a free chat that cannot be": {func(w *world) ([]string, error) {
			r, err := w.SetRelevance(t.Context(), system, manage.SetRelevance{Name: "home", Platform: "pigeon", Free: &bad})
			return r.Warnings, err
		}, "freeResponseScopes", false},
		"a free chat of no bot": {func(w *world) ([]string, error) {
			r, err := w.SetRelevance(t.Context(), system, manage.SetRelevance{Name: "home", Platform: "raven", Free: &good})
			return r.Warnings, err
		}, "", true},
		"a scope where there is none": {func(w *world) ([]string, error) {
			g, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "raven", Scope: "7"})
			return g.Warnings, err
		}, "scopeId", false},
		"a scope that cannot be": {func(w *world) ([]string, error) {
			g, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Scope: "tower"})
			return g.Warnings, err
		}, "scopeId", false},
		"a whole scope": {func(w *world) ([]string, error) {
			g, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Scope: "7"})
			return g.Warnings, err
		}, "", false},
		"a chat of no bot": {func(w *world) ([]string, error) {
			g, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "raven", Chat: "7"})
			return g.Warnings, err
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, newBird("pigeon", "1"))
			w.change(func(s *manage.Settings) { s.Networks = numbered() })
			w.enroll(t, "home")
			warnings, err := tc.do(w)
			if tc.refused != "" {
				wantField(t, err, tc.refused)
				return
			}
			if err != nil || (len(warnings) == 1) != tc.warned {
				t.Errorf("warnings %q, %v; want one: %t", warnings, err, tc.warned)
			}
		})
	}
}
