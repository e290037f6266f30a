package manage_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func TestScopes(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "attic")
	loft := manage.Scope{Name: "home", Platform: "pigeon", Chat: "-100"}
	if _, err := w.Claim(t.Context(), system, loft); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(time.Hour)
	if again, err := w.Claim(t.Context(), system, loft); err != nil || again.GrantedAt != noon {
		t.Errorf("claimed again: since %v, %v; want %v", again.GrantedAt, err, noon)
	}
	w.now = noon
	other := loft
	other.Name = "attic"
	_, err := w.Claim(t.Context(), system, other)
	wantRefusal(t, err, manage.Held)
	_, err = w.Release(t.Context(), system, other)
	wantRefusal(t, err, manage.NotFound)
	_, err = w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon"})
	wantRefusal(t, err, manage.Usage)
	if _, err := w.Claim(t.Context(), system, manage.Scope{Name: "attic", Platform: "raven", Scope: "tower"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]manage.Grant{
		"home": {{Platform: "pigeon", Chat: "-100", Instance: "home", Tenant: "home", GrantedAt: noon}},
		"": {
			{Platform: "pigeon", Chat: "-100", Instance: "home", Tenant: "home", GrantedAt: noon},
			{Platform: "raven", Scope: "tower", Instance: "attic", Tenant: "home", GrantedAt: noon},
		},
	} {
		got, err := w.Scopes(t.Context(), manage.Named{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("scopes of %q (-want +got):\n%s", name, diff)
		}
	}
	if _, err := w.Release(t.Context(), system, loft); err != nil {
		t.Error(err)
	}
	_, err = w.Scopes(t.Context(), manage.Named{Name: "nobody"})
	wantRefusal(t, err, manage.NotFound)
}

// surveyor is a bot that knows where chats lie.
type surveyor struct {
	*bird
	chats places
}

func (b surveyor) Locate(_ context.Context, c relay.ChatID) (relay.Place, error) {
	place, ok := b.chats[c]
	if !ok {
		return place, errors.New("never heard of it")
	}
	return place, nil
}

func TestClaimFindsTheScope(t *testing.T) {
	raven := surveyor{newBird("raven", "1"), places{"nest": {Platform: "raven", Scope: "tower", Chat: "nest"}, "loft": {Platform: "raven", Chat: "loft"}}}
	w := newWorld(t, &server{bots: []platforms.Bot{newBird("pigeon", "2"), raven}})
	w.enroll(t, "home")
	for name, tc := range map[string]struct {
		claim manage.Scope
		want  relay.ScopeID
	}{
		"left out":               {manage.Scope{Platform: "raven", Chat: "nest"}, "tower"},
		"given":                  {manage.Scope{Platform: "raven", Chat: "nest", Scope: "tower"}, "tower"},
		"there is none":          {manage.Scope{Platform: "raven", Chat: "loft"}, ""},
		"not known":              {manage.Scope{Platform: "raven", Chat: "roof", Scope: "barn"}, "barn"},
		"nobody to ask":          {manage.Scope{Platform: "pigeon", Chat: "nest"}, ""},
		"a whole scope is given": {manage.Scope{Platform: "raven", Scope: "barn"}, "barn"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.claim.Name = "home"
			g, err := w.Claim(t.Context(), system, tc.claim)
			if err != nil || g.Scope != tc.want {
				t.Fatalf("scope %q, %v; want %q", g.Scope, err, tc.want)
			}
			if tc.claim.Chat != "" {
				tc.claim.Scope = ""
			}
			if g, err = w.Release(t.Context(), system, tc.claim); err != nil || g.Scope != tc.want {
				t.Errorf("released scope %q, %v; want %q", g.Scope, err, tc.want)
			}
		})
	}
	_, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "raven", Chat: "nest", Scope: "barn"})
	wantField(t, err, "scopeId")
}

func TestClaimOwned(t *testing.T) {
	for name, tc := range map[string]struct {
		claim manage.Scope
		want  manage.Grant
		kind  manage.Why
	}{
		"a chat it manages, where the platform says it is": {
			claim: manage.Scope{Chat: "loft"}, want: manage.Grant{Scope: "tower", Chat: "loft"},
		},
		"a thread, alone":                 {claim: manage.Scope{Chat: "beam"}, want: manage.Grant{Scope: "tower", Chat: "beam"}},
		"a whole scope":                   {claim: manage.Scope{Scope: "farm"}, want: manage.Grant{Scope: "farm"}},
		"a chat it does not manage":       {claim: manage.Scope{Chat: "cellar"}, kind: manage.Forbidden},
		"a chat another holds":            {claim: manage.Scope{Chat: "nest"}, kind: manage.Held},
		"a reserved chat":                 {claim: manage.Scope{Chat: "coop"}, kind: manage.Forbidden},
		"a thread of a reserved chat":     {claim: manage.Scope{Chat: "perch"}, kind: manage.Forbidden},
		"a chat reserved by its own":      {claim: manage.Scope{Chat: "roost"}, want: manage.Grant{Chat: "roost"}},
		"nothing":                         {kind: manage.Usage},
		"an unknown platform":             {claim: manage.Scope{Platform: "pidgeon", Chat: "loft"}, kind: manage.Usage},
		"for an instance nobody serves":   {claim: manage.Scope{Name: "nobody", Chat: "loft"}, kind: manage.NotFound},
		"for an instance that is no more": {claim: manage.Scope{Name: "gone", Chat: "loft"}, kind: manage.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &server{manages: places{
				"loft": {Platform: "pigeon", Scope: "tower", Chat: "loft"}, "nest": {Platform: "pigeon", Chat: "nest"},
				"beam": {Platform: "pigeon", Scope: "tower", Chat: "beam", Parent: "loft"}, "": {Platform: "pigeon", Scope: "farm"},
				"coop": {Platform: "pigeon", Chat: "coop"}, "perch": {Platform: "pigeon", Chat: "perch", Parent: "coop"},
				"roost": {Platform: "pigeon", Chat: "roost"},
			}})
			w.enroll(t, "home", "attic", "gone")
			w.provision(t, manage.Provision{Tenant: "family", Instance: "kids", Gateway: "kids", Platform: "pigeon", RouteKeys: []string{"coop"}})
			w.provision(t, manage.Provision{Tenant: "home", Instance: "attic", Gateway: "attic", Platform: "pigeon", RouteKeys: []string{"roost"}})
			if _, err := w.Claim(t.Context(), system, manage.Scope{Name: "attic", Platform: "pigeon", Chat: "nest"}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "gone"}); err != nil {
				t.Fatal(err)
			}
			c := tc.claim
			c.Name, c.Platform = cmp.Or(c.Name, "home"), cmp.Or(c.Platform, "pigeon")
			got, err := w.ClaimOwned(t.Context(), system, c)
			if tc.kind != "" {
				wantRefusal(t, err, tc.kind)
				return
			}
			tc.want.Platform, tc.want.Instance, tc.want.Tenant, tc.want.GrantedAt = "pigeon", "home", "home", noon
			if diff := gocmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v; granted (-want +got):\n%s", err, diff)
			}
			stored, err := w.Scopes(t.Context(), manage.Named{Name: "home"})
			if diff := gocmp.Diff([]manage.Grant{tc.want}, stored); diff != "" || err != nil {
				t.Errorf("%v; stored (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWhatIsNotYoursAndWhatIsReservedAreRefusedAlike(t *testing.T) { // invariant 6
	w := newWorld(t, &server{manages: places{"coop": {Platform: "pigeon", Chat: "coop"}}})
	w.enroll(t, "home")
	w.provision(t, manage.Provision{Tenant: "family", Instance: "kids", Gateway: "kids", Platform: "pigeon", RouteKeys: []string{"coop"}})
	_, reserved := w.ClaimOwned(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "coop"})
	_, foreign := w.ClaimOwned(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "cellar"})
	if reserved == nil || foreign == nil || reserved.Error() != foreign.Error() {
		t.Errorf("%v and %v tell them apart", reserved, foreign)
	}
	// The operator may grant what a route reserves.
	if _, err := w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "coop"}); err != nil {
		t.Error(err)
	}
}

func TestClaimOwnedNeedsAServer(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	_, err := w.ClaimOwned(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"})
	wantRefusal(t, err, manage.Offline)
}

func TestRoutes(t *testing.T) {
	w := newWorld(t, nil)
	w.provision(t, manage.Provision{Tenant: "family", Instance: "kids", Gateway: "kids", Platform: "pigeon", RouteKeys: []string{"coop"}})
	w.provision(t, manage.Provision{Tenant: "home", Instance: "home", Gateway: "home", Platform: "raven", RouteKeys: []string{"coop"}})
	for name, want := range map[string]int{"": 2, "kids": 1} {
		all, err := w.Routes(t.Context(), manage.Named{Name: name})
		if err != nil || len(all) != want {
			t.Fatalf("Routes(%q) = %+v, %v; want %d", name, all, err, want)
		}
		wantRoute := map[string]any{"platform": "pigeon", "key": "coop", "tenant": "family", "instanceId": "kids", "at": "2026-11-21T12:00:00Z"}
		if diff := gocmp.Diff(wantRoute, keysOf(t, all[0])); diff != "" { // invariant 4
			t.Errorf("route (-want +got):\n%s", diff)
		}
	}
	coop := manage.RouteKey{Platform: "pigeon", Key: "coop"}
	if got, err := w.DropRoute(t.Context(), system, coop); err != nil || got != coop {
		t.Errorf("DropRoute() = %+v, %v", got, err)
	}
	_, err := w.DropRoute(t.Context(), system, coop)
	wantRefusal(t, err, manage.NotFound)
	_, err = w.Routes(t.Context(), manage.Named{Name: "nobody"})
	wantRefusal(t, err, manage.NotFound)
}
