package hub

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// claims is a hub with two bots of "tell" and one of "mute"; ann and bob are bound to "home" on
// "tell", eve to "kids".
func claims(t *testing.T) (*Hub, *stage, *stage) {
	t.Helper()
	db := storetest.Open(t, t.TempDir(), store.Options{})
	for user, inst := range map[relay.UserID]relay.InstanceID{"ann": "home", "bob": "home", "eve": "kids"} {
		i := store.Instance{ID: inst, Tenant: relay.TenantID(inst)}
		must.Succeed(t, db.Enroll(t.Context(), nil, store.Gateway{ID: relay.GatewayID(user)}, i))
		must.Succeed(t, db.Bind(t.Context(), nil, store.Binding{Platform: tell, User: user, Instance: inst}))
	}
	first, second, other := &stage{bot: relay.Bot{Platform: tell, ID: "1"}}, &stage{bot: relay.Bot{Platform: tell, ID: "2"}}, &stage{bot: relay.Bot{Platform: mute, ID: "1"}}
	return New(db, nil, &bus.Local{}, []platforms.Bot{first, second, asked{other, other, other, other, other, other, other, other}}, Options{}), first, second
}

// answers makes s a network that knows the chats "green" and its thread "rose" in the scope "park",
// "hall" in none, and ann's direct messages, and on which everybody manages and sees everything.
func answers(s *stage) {
	s.locates = func(chat relay.ChatID) (relay.Place, error) {
		place, ok := map[relay.ChatID]relay.Place{
			"green": {Platform: tell, Scope: "park", Chat: "green"},
			"rose":  {Platform: tell, Scope: "park", Chat: "rose", Parent: "green"},
			"hall":  {Platform: tell, Chat: "hall"},
			"@ann":  {Platform: tell, Chat: "@ann"},
			"alias": {Platform: tell, Scope: "park", Chat: "green"},
		}[chat]
		if !ok {
			return place, errNobodyKnows
		}
		return place, nil
	}
	s.whose = func(chat relay.ChatID) (relay.UserID, bool) { return "ann", chat == "@ann" }
	s.manages = func(context.Context, relay.Place, relay.UserID) (bool, error) { return true, nil }
	s.sees = func(relay.Place, relay.UserID) (bool, error) { return true, nil }
}

func TestMayClaim(t *testing.T) {
	t.Parallel()
	green := relay.Place{Platform: tell, Scope: "park", Chat: "green"}
	rose := relay.Place{Platform: tell, Scope: "park", Chat: "rose", Parent: "green"}
	park := relay.Place{Platform: tell, Scope: "park"}
	only := func(who relay.UserID) func(context.Context, relay.Place, relay.UserID) (bool, error) {
		return func(_ context.Context, _ relay.Place, u relay.UserID) (bool, error) { return u == who, nil }
	}
	for name, tc := range map[string]struct {
		set      func(first, second *stage)
		instance relay.InstanceID // home when empty
		platform relay.PlatformID // tell when empty
		scope    relay.ScopeID
		chat     relay.ChatID
		want     relay.Place // the zero place: no
	}{
		"a chat":                               {scope: "park", chat: "green", want: green},
		"a chat without its scope":             {chat: "green", want: green},
		"a thread":                             {scope: "park", chat: "rose", want: rose},
		"a chat outside of scopes":             {chat: "hall", want: relay.Place{Platform: tell, Chat: "hall"}},
		"a whole scope":                        {scope: "park", want: park},
		"a chat said to stand in another":      {scope: "mill", chat: "green"},
		"a chat said to stand in one":          {scope: "park", chat: "hall"},
		"a chat that is nowhere":               {scope: "park", chat: "nowhere"},
		"another chat's second name":           {scope: "park", chat: "alias"},
		"nothing":                              {},
		"one's own direct messages":            {chat: "@ann"},
		"a platform nobody hosts":              {platform: "smoke", chat: "green"},
		"a platform they are not bound on":     {platform: mute, scope: "park", chat: "green"},
		"an instance that is not there":        {instance: "gone", scope: "park", chat: "green"},
		"an instance of nobody who manages it": {instance: "kids", scope: "park", chat: "green", set: func(a, b *stage) { a.manages = only("ann") }},
		"one owner of two manages it": {
			scope: "park", chat: "green", want: green, set: func(a, _ *stage) { a.manages = only("bob") },
		},
		"one manages it, the other sees it": {scope: "park", chat: "green", set: func(a, _ *stage) {
			a.manages = only("bob")
			a.sees = func(_ relay.Place, u relay.UserID) (bool, error) { return u == "ann", nil }
		}},
		"somebody else manages it": {scope: "park", chat: "green", set: func(a, _ *stage) { a.manages = only("eve") }},
		"nobody manages the scope": {scope: "park", set: func(a, _ *stage) {
			a.manages = func(_ context.Context, at relay.Place, _ relay.UserID) (bool, error) { return at.Chat != "", nil }
		}},
		"nobody knows who manages it": {scope: "park", chat: "green", set: func(a, _ *stage) { a.manages = nil }},
		"who manages it cannot see it": {scope: "park", chat: "green", set: func(a, _ *stage) {
			a.sees = func(relay.Place, relay.UserID) (bool, error) { return false, nil }
		}},
		"nobody knows who sees it": {scope: "park", chat: "green", set: func(a, _ *stage) { a.sees = nil }},
		"nobody knows where it is": {scope: "park", chat: "green", set: func(a, _ *stage) { a.locates = nil }},
		"only the second bot can say": {
			scope: "park", chat: "green", want: green,
			set: func(a, b *stage) { a.locates = nil; answers(b) },
		},
		"it manages on one bot and sees on another": {scope: "park", chat: "green", set: func(a, b *stage) {
			answers(b)
			a.manages = only("eve")
			b.sees = func(relay.Place, relay.UserID) (bool, error) { return false, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, first, second := claims(t)
				answers(first)
				if tc.set != nil {
					tc.set(first, second)
				}
				if tc.instance == "" {
					tc.instance = "home"
				}
				if tc.platform == "" {
					tc.platform = tell
				}
				began := time.Now()
				got, ok := h.MayClaim(t.Context(), tc.instance, tc.platform, tc.scope, tc.chat)
				if got != tc.want || ok != (tc.want != relay.Place{}) {
					t.Errorf("MayClaim = %+v, %t; want %+v", got, ok, tc.want)
				}
				if took := time.Since(began); took > inbound.ClaimWithin {
					t.Errorf("took %s, want at most %s", took, inbound.ClaimWithin)
				}
			})
		})
	}
}

// A network that hangs costs one claim inbound.ClaimWithin, whatever is asked, and says no.
func TestMayClaimDoesNotWaitForAHangingNetwork(t *testing.T) {
	for _, chat := range []relay.ChatID{"", "green"} {
		synctest.Test(t, func(t *testing.T) {
			h, first, second := claims(t)
			for _, s := range []*stage{first, second} {
				answers(s)
				s.manages = func(ctx context.Context, _ relay.Place, _ relay.UserID) (bool, error) {
					<-ctx.Done()
					return true, ctx.Err()
				}
			}
			began := time.Now()
			if at, ok := h.MayClaim(t.Context(), "home", tell, "park", chat); ok {
				t.Errorf("%q: MayClaim = %+v, want no", chat, at)
			}
			if took := time.Since(began); took != inbound.ClaimWithin {
				t.Errorf("%q: took %s, want %s", chat, took, inbound.ClaimWithin)
			}
		})
	}
}

// TestCommandsAreNoReasonToClaim: who is linked for commands only has given a gateway no more than these.
func TestCommandsAreNoReasonToClaim(t *testing.T) {
	h, first, _ := claims(t)
	answers(first)
	first.manages = func(_ context.Context, _ relay.Place, u relay.UserID) (bool, error) { return u == "ann", nil }
	for _, commands := range [][]string{{"/add"}, nil} {
		must.Succeed(t, h.db.Bind(t.Context(), nil, store.Binding{Platform: tell, User: "ann", Instance: "kids", Commands: commands}))
		if _, ok := h.MayClaim(t.Context(), "kids", tell, "park", "green"); ok != (commands == nil) {
			t.Errorf("linked for %q: MayClaim = %t", commands, ok)
		}
	}
}

func TestWhoManagesIsAskedEveryTime(t *testing.T) {
	h, first, _ := claims(t)
	answers(first)
	var asked []relay.UserID
	manages := true
	first.manages = func(_ context.Context, at relay.Place, u relay.UserID) (bool, error) {
		asked = append(asked, u)
		return manages, nil
	}
	for _, want := range []bool{true, false, true} {
		manages = want
		if _, ok := h.MayClaim(t.Context(), "home", tell, "park", ""); ok != want {
			t.Errorf("MayClaim = %t, want %t", ok, want)
		}
	}
	slices.Sort(asked[1:3])
	if want := []relay.UserID{"ann", "bob"}; len(asked) != 4 || !slices.Equal(asked[1:3], want) {
		t.Errorf("asked about %q, want one, both, one", asked)
	}
}

func TestAPlatformWithoutTheAbilitiesAllowsNoClaim(t *testing.T) {
	h, first, _ := claims(t)
	answers(first)
	must.Succeed(t, h.db.Bind(t.Context(), nil, store.Binding{Platform: mute, User: "ann", Instance: "home"}))
	for _, chat := range []relay.ChatID{"", "green"} {
		if at, ok := h.MayClaim(t.Context(), "home", mute, "park", chat); ok {
			t.Errorf("%q: MayClaim = %+v, want no", chat, at)
		}
	}
}
