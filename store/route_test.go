package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// tenants enrolls a1 and a2 of tenant a, and b1 of tenant b.
func tenants(t *testing.T, db *DB) {
	t.Helper()
	for _, i := range []Instance{{ID: "a1", Tenant: "a"}, {ID: "a2", Tenant: "a"}, {ID: "b1", Tenant: "b"}} {
		must.Succeed(t, db.Enroll(ctxOf(t), nil, Gateway{ID: relay.GatewayID(i.ID)}, i))
	}
}

func setRoutes(t *testing.T, db *DB, i relay.InstanceID, keys ...string) []string {
	t.Helper()
	got, err := db.Routes.Set(ctxOf(t), nil, i, "p", keys)
	must.Succeed(t, err)
	return got
}

// routesOf are the routes as "platform key instance".
func routesOf(t *testing.T, db *DB) []string {
	t.Helper()
	rs, err := db.Routes.List(ctxOf(t))
	must.Succeed(t, err)
	var out []string
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s %s %s", r.Platform, r.Key, r.Instance))
	}
	return out
}

func TestSetRoutes(t *testing.T) { // invariant 12
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	tenants(t, db)
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("new", setRoutes(t, db, "a1", "z", "chat", "z", "guild"), "z", "chat", "guild")
	want("another tenant's left out", setRoutes(t, db, "b1", "free", "chat", "/hook"), "free", "/hook")
	want("the same tenant's shared", setRoutes(t, db, "a2", "chat", "free"), "chat")
	if got, err := db.Routes.Set(ctx, nil, "b1", "q", []string{"chat"}); err != nil || len(got) != 1 {
		t.Errorf("on another platform: %v %v", got, err)
	}
	want("all", routesOf(t, db), "p /hook b1", "p chat a1", "p chat a2", "p free b1", "p guild a1", "p z a1", "q chat b1")

	before, err := db.Routes.List(ctx)
	if err != nil || before[1] != (Route{Platform: "p", Key: "chat", Tenant: "a", Instance: "a1", At: c.now()}) {
		t.Errorf("%+v %v", before[1], err)
	}
	c.add(time.Hour)
	commits := db.Stats().Commits
	want("the same again", setRoutes(t, db, "a1", "guild", "chat", "z"), "guild", "chat", "z")
	if after, err := db.Routes.List(ctx); err != nil || !cmp.Equal(after, before) || db.Stats().Commits != commits {
		t.Errorf("the same again changed something: %v %s", err, cmp.Diff(before, after))
	}

	want("given up by one of two", setRoutes(t, db, "a1", "z"), "z")
	want("still the tenant's", setRoutes(t, db, "b1", "chat"))
	want("given up by the other", setRoutes(t, db, "a2"))
	want("free now", setRoutes(t, db, "b1", "chat"), "chat")
	want("all", routesOf(t, db), "p chat b1", "p z a1", "q chat b1")

	if err := db.Routes.Drop(ctx, nil, "p", "chat"); err != nil {
		t.Error(err)
	}
	if err := db.Routes.Drop(ctx, nil, "p", "chat"); !errors.Is(err, ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	if _, err := db.Revoke(ctx, nil, "a1"); err != nil {
		t.Fatal(err)
	}
	want("all", routesOf(t, db), "q chat b1")
	for _, i := range []relay.InstanceID{"a1", "nobody"} {
		if _, err := db.Routes.Set(ctx, nil, i, "p", nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("routes of %s: %v, want ErrNotFound", i, err)
		}
	}
}

func TestRoutesAreNotPutOverOthersGrants(t *testing.T) {
	db := openTest(t, Options{})
	tenants(t, db)
	for _, g := range []Grant{
		{Platform: "p", Scope: "guild", Chat: "c1", Instance: "a1"},
		{Platform: "p", Chat: "c2", Instance: "a1"},
		{Platform: "p", Scope: "mine", Chat: "c3", Instance: "b1"},
		{Platform: "q", Chat: "c4", Instance: "a1"},
	} {
		must.Succeed(t, db.Claim(ctxOf(t), nil, g))
	}
	keys := []string{"guild", "c1", "c2", "mine", "c3", "c4"}
	if got, want := setRoutes(t, db, "b1", keys...), keys[3:]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := setRoutes(t, db, "a2", keys...), keys[:3]; !slices.Equal(got, want) {
		t.Errorf("the holder's own tenant got %v, want %v", got, want)
	}
}

func TestRoutesAreBounded(t *testing.T) {
	db := openTest(t, Options{})
	tenants(t, db)
	hundred := make([]string, 100)
	for n := range hundred {
		hundred[n] = fmt.Sprintf("%0256d", n)
	}
	if got := setRoutes(t, db, "a1", hundred...); !slices.Equal(got, hundred) {
		t.Errorf("accepted %d of %d", len(got), len(hundred))
	}
	for name, keys := range map[string][]string{
		"one too many": append(slices.Clone(hundred), "x"),
		"empty":        {"x", ""},
		"too long":     {strings.Repeat("x", 257)},
	} {
		if got, err := db.Routes.Set(ctxOf(t), nil, "a1", "p", keys); err == nil || got != nil {
			t.Errorf("%s: %d accepted", name, len(got))
		}
	}
	if n := len(routesOf(t, db)); n != 100 {
		t.Errorf("%d routes after refusals, want %d", n, 100)
	}
}

func TestClaimUnreserved(t *testing.T) {
	for name, tc := range map[string]struct {
		routes []string // of tenant a
		grant  Grant
		parent relay.ChatID
		want   error
	}{
		"free":                        {[]string{"x"}, Grant{Scope: "s", Chat: "c", Instance: "b1"}, "p", nil},
		"the chat":                    {[]string{"c"}, Grant{Scope: "s", Chat: "c", Instance: "b1"}, "", ErrReserved},
		"the parent":                  {[]string{"p"}, Grant{Scope: "s", Chat: "c", Instance: "b1"}, "p", ErrReserved},
		"the scope":                   {[]string{"s"}, Grant{Scope: "s", Chat: "c", Instance: "b1"}, "", ErrReserved},
		"a scope as a whole":          {[]string{"s"}, Grant{Scope: "s", Instance: "b1"}, "", ErrReserved},
		"by the same tenant":          {[]string{"c", "s"}, Grant{Scope: "s", Chat: "c", Instance: "a2"}, "", nil},
		"a key that begins like this": {[]string{"cc"}, Grant{Chat: "c", Instance: "b1"}, "", nil},
		"nobody":                      {[]string{"c"}, Grant{Chat: "c", Instance: "zz"}, "", ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{})
			tenants(t, db)
			setRoutes(t, db, "a1", tc.routes...)
			tc.grant.Platform = "p"
			err := db.Claim(ctxOf(t), nil, tc.grant, Own{tc.parent})
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if tc.want == ErrNotFound {
				return
			}
			if gs, err := db.Grants(ctxOf(t), GrantFilter{}); err != nil || (len(gs) == 1) != (tc.want == nil) {
				t.Errorf("grants %v, %v", gs, err)
			}
			if err := db.Claim(ctxOf(t), nil, tc.grant); err != nil {
				t.Errorf("the operator's own claim: %v", err)
			}
			if err := db.Claim(ctxOf(t), nil, tc.grant, Own{tc.parent}); err != nil {
				t.Errorf("held already: %v", err)
			}
		})
	}
	t.Run("held", func(t *testing.T) {
		db := openTest(t, Options{})
		tenants(t, db)
		must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "p", Chat: "c", Instance: "a1"}))
		err := db.Claim(ctxOf(t), nil, Grant{Platform: "p", Chat: "c", Instance: "b1"}, Own{""})
		if !errors.Is(err, ErrHeld) || strings.Contains(err.Error(), "a1") {
			t.Errorf("got %v, want ErrHeld without the holder", err)
		}
	})
	t.Run("a thread of what is held", func(t *testing.T) {
		db := openTest(t, Options{})
		tenants(t, db)
		must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "p", Scope: "s", Chat: "c", Instance: "a1"}))
		thread := Grant{Platform: "p", Scope: "s", Chat: "thread", Instance: "b1"}
		if err := db.Claim(ctxOf(t), nil, thread, Own{"c"}); !errors.Is(err, ErrHeld) {
			t.Errorf("another's claim: %v, want ErrHeld", err)
		}
		thread.Instance = "a1"
		if err := db.Claim(ctxOf(t), nil, thread, Own{"c"}); err != nil {
			t.Errorf("the holder's own claim: %v", err)
		}
	})
}

func TestRoutesMoveWithTheirChat(t *testing.T) {
	db := openTest(t, Options{})
	tenants(t, db)
	setRoutes(t, db, "a1", "old", "else")
	setRoutes(t, db, "a2", "old")
	move := func(from, to relay.ChatID, want ...string) {
		t.Helper()
		must.Succeed(t, db.MoveChat(ctxOf(t), Move{Platform: "p", From: from, To: to}))
		if got := routesOf(t, db); !slices.Equal(got, want) {
			t.Errorf("%s to %s: %v, want %v", from, to, got, want)
		}
	}
	move("old", "new", "p else a1", "p new a1", "p new a2")
	setRoutes(t, db, "b1", "theirs")
	move("new", "theirs", "p else a1", "p theirs b1") // invariant 12
}
