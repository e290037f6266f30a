package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestEnroll(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	gw := func(id relay.GatewayID) Gateway {
		return Gateway{ID: id, Secrets: []GatewaySecret{{ID: "s", Sealed: []byte{1}, CreatedAt: c.now()}}, DeliveryKey: []byte{2}}
	}
	must.Succeed(t, db.Enroll(ctx, nil, gw("g1"), Instance{ID: "i1", Tenant: "home", WakeURL: "https://a.example"}))
	want := gw("g1")
	want.Instance, want.Tenant, want.CreatedAt = "i1", "home", c.now()
	if got, err := Only(db.Gateways(ctx, "g1")); err != nil || !cmp.Equal(got, want) {
		t.Errorf("gateway: %v, %s", err, cmp.Diff(want, got))
	}
	for name, tc := range map[string]struct {
		g    relay.GatewayID
		i    Instance
		want error
	}{
		"the name is taken":            {"g1", Instance{ID: "i1", Tenant: "home"}, ErrExists},
		"the name is taken, elsewhere": {"g1", Instance{ID: "i2", Tenant: "home"}, ErrExists},
		"instance of another tenant":   {"g2", Instance{ID: "i1", Tenant: "away"}, ErrExists},
		"second gateway":               {"g3", Instance{ID: "i1", Tenant: "home", WakeURL: "https://b.example"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := db.Enroll(ctx, nil, gw(tc.g), tc.i); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	if i, err := Only(db.Instances(ctx, "i1")); err != nil || i.WakeURL != "https://a.example" || !i.CreatedAt.Equal(c.now()) {
		t.Errorf("instance %+v, %v; a second gateway must leave it alone", i, err)
	}
	if ts, err := tenantsOf(db); err != nil || len(ts) != 1 || ts[0].ID != "home" {
		t.Errorf("tenants %v, %v; want home alone", ts, err)
	}
	if _, err := Only(db.Gateways(ctx, "g2")); !errors.Is(err, ErrNotFound) {
		t.Errorf("refused enrollment left %v", err)
	}
	if gs, err := db.Gateways(ctx); err != nil || len(gs) != 2 || gs[0].ID != "g1" || gs[1].ID != "g3" {
		t.Errorf("gateways %v, %v", gs, err)
	}
}

func TestUpdate(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	must.Succeed(t, db.UpdateGateway(ctx, nil, "i1", func(g *Gateway, _ *Instance) error {
		g.Secrets = append(g.Secrets, GatewaySecret{ID: "s2"})
		g.ID, g.Instance, g.Tenant = "x", "y", "z"
		return nil
	}))
	g, err := Only(db.Gateways(ctx, "i1"))
	if err != nil || len(g.Secrets) != 2 || g.Instance != "i1" || g.Tenant != "home" {
		t.Errorf("gateway %+v, %v; want a second secret and nothing else changed", g, err)
	}
	no := errors.New("no")
	if err := db.UpdateInstance(ctx, nil, "i1", func(i *Instance) error { i.WakeURL = "x"; return no }); !errors.Is(err, no) {
		t.Errorf("got %v, want the callback's error", err)
	}
	must.Succeed(t, db.UpdateInstance(ctx, nil, "i1", func(i *Instance) error { i.ID, i.Tenant, i.Asleep = "x", "y", true; return nil }))
	if i, err := Only(db.Instances(ctx, "i1")); err != nil || !i.Asleep || i.WakeURL != "" || i.Tenant != "home" {
		t.Errorf("instance %+v, %v", i, err)
	}
	for what, err := range map[string]error{
		"gateway":  db.UpdateGateway(ctx, nil, "zz", func(*Gateway, *Instance) error { return nil }),
		"instance": db.UpdateInstance(ctx, nil, "zz", func(*Instance) error { return nil }),
		"revoke":   second(db.Revoke(ctx, nil, "zz")),
		"get":      second(db.Instances(ctx, "zz")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of nobody: %v, want ErrNotFound", what, err)
		}
	}
}

func TestRevokeTakesEverythingAway(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	must.Succeed(t, db.Enroll(ctx, nil, Gateway{ID: "other"}, Instance{ID: "i1", Tenant: "home"}))
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		must.Succeed(t,
			db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: i}),
			db.Claim(ctx, nil, Grant{Platform: "loop", Chat: relay.ChatID("of " + i), Instance: i}),
			db.Codes.Put(ctx, nil, []byte("mac "+i), Code{Kind: LinkCode, Instance: i, ExpiresAt: time.Now().Add(time.Hour)}),
			db.Codes.Put(ctx, nil, []byte("mac "+i), Code{Kind: IdentityCode, Tenant: relay.DefaultTenant, Instance: i}),
			second(db.Routes.Set(ctx, nil, i, "loop", []string{"shared"})),
		)
	}
	acceptOne(t, db, event("e1", 300), "i1", "i2")
	before, err := db.Lanes.State(ctx, "i1")
	must.Succeed(t, err)

	if _, err := db.Revoke(ctx, nil, "i2", "other"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a gateway of another instance: %v, want ErrNotFound", err)
	}
	if gone, err := db.Revoke(ctx, nil, "i1", "other"); err != nil || !slices.Equal(gone, []relay.GatewayID{"other"}) {
		t.Fatal(gone, err)
	}
	if g, err := Only(db.Gateways(ctx, "other")); err != nil || !g.Revoked || len(g.Secrets) != 0 || g.DeliveryKey != nil {
		t.Errorf("gateway %+v, %v; want it revoked and bare", g, err)
	}
	if l, err := db.Lanes.State(ctx, "i1"); err != nil || l.Entries != 1 {
		t.Errorf("lane %+v, %v; the instance still has a gateway", l, err)
	}

	for _, want := range [][]relay.GatewayID{{"i1"}, nil} { // the second time changes nothing
		if gone, err := db.Revoke(ctx, nil, "i1", "i1"); err != nil || !slices.Equal(gone, want) {
			t.Fatal(gone, err)
		}
	}
	counts := func(i relay.InstanceID) [4]int {
		t.Helper()
		bs, err1 := db.Bindings(ctx, BindingFilter{Instance: i})
		gs, err2 := db.Grants(ctx, GrantFilter{Instance: i})
		cs, err3 := db.Conversations(ctx, ConversationFilter{Instance: i})
		es, err4 := db.Lanes.Entries(ctx, i, EntryFilter{})
		must.Succeed(t, err1, err2, err3, err4)
		return [4]int{len(bs), len(gs), len(cs), len(es)}
	}
	if got := counts("i1"); got != [4]int{} {
		t.Errorf("left of i1: %v bindings, grants, conversations, entries", got)
	}
	if got := counts("i2"); got != [4]int{1, 1, 1, 1} {
		t.Errorf("left of its neighbour: %v", got)
	}
	dead, err := db.Lanes.Entries(ctx, "i1", EntryFilter{Dead: true})
	if err != nil || len(dead) != 1 || dead[0].Reason != DeadRemoved || dead[0].Buffer != (relay.BufferID{Epoch: before.Epoch, Seq: 1}) {
		t.Errorf("dead letters %v, %v", dead, err)
	}
	if rs, err := db.Routes.List(ctx); err != nil || len(rs) != 1 || rs[0].Instance != "i2" {
		t.Errorf("routes %v, %v; want the neighbour's", rs, err)
	}
	for i, want := range map[string]error{"i1": ErrNotFound, "i2": nil} {
		if _, err := db.Codes.Get(ctx, IdentityCode, []byte("mac "+i)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("identity code of %s: %v, want %v", i, err, want)
		}
	}
	if bs, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"}); err != nil || len(bs) != 1 || bs[0].Instance != "i2" {
		t.Errorf("the user is bound to %v, %v", bs, err)
	}

	// What was decided before the revocation must not reach whoever gets the name next.
	if out := acceptOne(t, db, event("late", 300), "i1"); out.Duplicate || !out.Buffers[0].IsZero() {
		t.Errorf("delivered to a revoked instance: %+v", out)
	}
	for what, err := range map[string]error{
		"bind":   db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		"claim":  db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c7", Instance: "i1"}),
		"code":   db.Codes.Put(ctx, nil, []byte("new"), Code{Kind: LinkCode, Instance: "i1"}),
		"routes": second(db.Routes.Set(ctx, nil, "i1", "loop", []string{"c7"})),
		"redeem": second(db.Codes.Redeem(ctx, nil, []byte("mac i1"), Person{"loop", "u5"}, "c")),
		"replay": second(db.Lanes.Replay(ctx, nil, "i1")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s for a revoked instance: %v, want ErrNotFound", what, err)
		}
	}
	if _, err := db.Codes.Redeem(ctx, nil, []byte("mac i2"), Person{"loop", "u5"}, "c"); err != nil {
		t.Errorf("the neighbour's code: %v", err)
	}

	// Enrolled again: a new life.
	must.Succeed(t, db.Enroll(ctx, nil, Gateway{ID: "i1"}, Instance{ID: "i1", Tenant: "home", WakeURL: "https://new.example"}))
	if i, err := Only(db.Instances(ctx, "i1")); err != nil || i.WakeURL != "https://new.example" {
		t.Errorf("instance %+v, %v", i, err)
	}
	id := acceptOne(t, db, event("again", 300), "i1").Buffers[0] // invariant 4
	if id.Epoch == before.Epoch || id.Epoch == 0 || id.Seq != 2 {
		t.Errorf("buffer id %v after %x-1: want a new epoch and the next number", id, before.Epoch)
	}
	if _, err := db.Codes.Redeem(ctx, nil, []byte("mac i1"), Person{"loop", "u5"}, "c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a code from before the revocation: %v, want ErrNotFound", err)
	}
	if err := db.Enroll(ctx, nil, Gateway{ID: "i9"}, Instance{ID: "i1", Tenant: "away"}); !errors.Is(err, ErrExists) {
		t.Errorf("another tenant takes the name: %v", err)
	}
}

func TestBindings(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	if err := db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "nobody"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("bind to nobody: %v", err)
	}
	bound := c.now()
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i2", Tenant: "spoofed", DMDefault: true}))
	c.add(time.Minute)
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1", DMChat: "dm1"}))
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u10", Instance: "i1"}))
	must(db.SetDMDefault(ctx, nil, "i1", "loop", "u1"))
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"})) // keeps all
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i2", DMChat: "dm2"}))
	want := []Binding{
		{Tenant: "home", Platform: "loop", User: "u1", Instance: "i2", BoundAt: bound, DMChat: "dm2"},
		{Tenant: "home", Platform: "loop", User: "u1", Instance: "i1", BoundAt: bound.Add(time.Minute), DMDefault: true, DMChat: "dm1"},
	}
	if got, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("bindings of: %v %s", err, cmp.Diff(want, got))
	}
	if got, err := db.Bindings(ctx, BindingFilter{Instance: "i1"}); err != nil || len(got) != 2 {
		t.Errorf("bindings to: %v %v", got, err)
	}
	must(db.SetDMDefault(ctx, nil, "i2", "loop", "u1"))
	got, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"})
	if err != nil || !got[0].DMDefault || got[1].DMDefault {
		t.Errorf("dm default: %v %v; want i2 alone", got, err)
	}
	if err := db.SetDMDefault(ctx, nil, "i2", "loop", "u10"); !errors.Is(err, ErrNotFound) {
		t.Errorf("dm default where they are not bound: %v", err)
	}
	must(db.Unbind(ctx, nil, "i1", "loop", "u1"))
	if err := db.Unbind(ctx, nil, "i1", "loop", "u1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unbind twice: %v", err)
	}
	if got, err := db.Bindings(ctx, BindingFilter{Instance: "i1"}); err != nil || len(got) != 1 || got[0].User != "u10" {
		t.Errorf("bindings to, after unbind: %v %v", got, err)
	}
}

// TestBindingsForCommands: a command goes to one of a person's instances; what a binding is for is what was said of it last.
func TestBindingsForCommands(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	bind := func(i relay.InstanceID, u relay.UserID, commands ...string) error {
		c.add(time.Minute)
		return db.Bind(ctx, nil, Binding{Platform: "loop", User: u, Instance: i, Commands: commands})
	}
	all := func() (out []string) {
		t.Helper()
		bs, err := db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"})
		must.Succeed(t, err)
		for _, b := range bs {
			out = append(out, fmt.Sprintf("%s%v%t", b.Instance, b.Commands, b.DMDefault))
		}
		return out
	}
	want := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, all()); diff != "" {
			t.Errorf("bindings (-want +got):\n%s", diff)
		}
	}
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	must(bind("i1", "u1", "/add", "/backup"))
	must(bind("i2", "u1"))
	want("i1[/add /backup]false", "i2[]false")
	if err := db.SetDMDefault(ctx, nil, "i1", "loop", "u1"); !errors.Is(err, ErrCommandsOnly) {
		t.Errorf("the default for direct messages: %v, want ErrCommandsOnly", err)
	}
	must(bind("i2", "u2", "/add")) // somebody else's
	must(bind("i2", "u1", "/Add", "/new"))
	if taken, ok := errors.AsType[*CommandTaken](bind("i2", "u1", "/new", "/backup")); !ok || *taken != (CommandTaken{"/backup", "i1"}) {
		t.Errorf("a command of another instance of theirs: %+v", taken)
	}
	want("i1[/add /backup]false", "i2[/Add /new]false")
	must(bind("i1", "u1", "/other"))
	must(bind("i2", "u1", "/backup"))
	want("i1[/other]false", "i2[/backup]false")
	must(bind("i2", "u1"))
	must(bind("i1", "u1")) // had nothing when i2 had everything already
	want("i2[]false", "i1[]false")
	must(db.SetDMDefault(ctx, nil, "i1", "loop", "u1"))
	must(bind("i1", "u1", "/add"))
	must(bind("i1", "u1")) // and is not the default again
	want("i2[]false", "i1[]false")
}

func TestClaim(t *testing.T) {
	t.Parallel()
	type g struct {
		inst  relay.InstanceID
		scope relay.ScopeID
		chat  relay.ChatID
	}
	for name, tc := range map[string]struct {
		held []g
		ask  g
		want error
	}{
		"free":                                {nil, g{"i1", "s", "c"}, nil},
		"mine already":                        {[]g{{"i1", "s", "c"}}, g{"i1", "s", "c"}, nil},
		"held":                                {[]g{{"i2", "s", "c"}}, g{"i1", "s", "c"}, ErrHeld},
		"held, no scope":                      {[]g{{"i2", "", "c"}}, g{"i1", "", "c"}, ErrHeld},
		"its scope is held":                   {[]g{{"i2", "s", ""}}, g{"i1", "s", "c"}, ErrHeld},
		"its scope is mine":                   {[]g{{"i1", "s", ""}}, g{"i1", "s", "c"}, nil},
		"another scope is held":               {[]g{{"i2", "z", ""}}, g{"i1", "s", "c"}, nil},
		"scope with another's chat":           {[]g{{"i2", "s", "c"}}, g{"i1", "s", ""}, ErrHeld},
		"scope with my chat":                  {[]g{{"i1", "s", "c"}}, g{"i1", "s", ""}, nil},
		"scope with mine and another's chat":  {[]g{{"i1", "s", "a"}, {"i2", "s", "c"}}, g{"i1", "s", ""}, ErrHeld},
		"my scope, taken back in by a chat":   {[]g{{"i1", "s", ""}}, g{"i2", "s", "c"}, ErrHeld},
		"scope is held":                       {[]g{{"i2", "s", ""}}, g{"i1", "s", ""}, ErrHeld},
		"a scope whose name begins like this": {[]g{{"i2", "s1", "c"}}, g{"i1", "s", ""}, nil},
		"nobody":                              {nil, g{"zz", "s", "c"}, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{})
			enroll(t, db, "i1", "i2")
			for _, h := range tc.held {
				must.Succeed(t, db.Claim(ctxOf(t), nil, Grant{Platform: "p", Scope: h.scope, Chat: h.chat, Instance: h.inst}))
			}
			err := db.Claim(ctxOf(t), nil, Grant{Platform: "p", Scope: tc.ask.scope, Chat: tc.ask.chat, Instance: tc.ask.inst})
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestGrants(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	if err := db.Claim(ctx, nil, Grant{Platform: "p", Instance: "i1"}); err == nil {
		t.Error("a grant on everything was accepted")
	}
	for _, g := range []Grant{
		{Platform: "p", Scope: "whole", Instance: "i1"},
		{Platform: "p", Scope: "s", Chat: "c", Instance: "i2", Tenant: "spoofed"},
		{Platform: "p", Chat: "c", Instance: "i1"},
		{Platform: "q", Chat: "c", Instance: "i1"},
	} {
		must.Succeed(t, db.Claim(ctx, nil, g))
	}
	for name, tc := range map[string]struct {
		place relay.Place
		want  relay.InstanceID
	}{
		"the chat":                       {relay.Place{Platform: "p", Scope: "s", Chat: "c"}, "i2"},
		"a thread of it":                 {relay.Place{Platform: "p", Scope: "s", Chat: "t", Parent: "c"}, "i2"},
		"in a scope granted whole":       {relay.Place{Platform: "p", Scope: "whole", Chat: "x"}, "i1"},
		"no scope":                       {relay.Place{Platform: "p", Chat: "c"}, "i1"},
		"another chat":                   {relay.Place{Platform: "p", Scope: "s", Chat: "x"}, ""},
		"same chat in another scope":     {relay.Place{Platform: "p", Scope: "z", Chat: "c"}, ""},
		"no scope does not mean any":     {relay.Place{Platform: "p", Chat: "x"}, ""},
		"same names on another platform": {relay.Place{Platform: "r", Scope: "s", Chat: "c"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, ok, err := First(db.Grants(ctx, GrantFilter{Covering: &tc.place}))
			if err != nil || ok != (tc.want != "") || g.Instance != tc.want {
				t.Errorf("got %+v %v %v, want %q", g, ok, err, tc.want)
			}
		})
	}
	instances := func(gs []Grant, err error) []relay.InstanceID {
		t.Helper()
		must.Succeed(t, err)
		var out []relay.InstanceID
		for _, g := range gs {
			if g.Tenant != "home" || g.GrantedAt.IsZero() {
				t.Errorf("grant %+v: want the instance's tenant and a time", g)
			}
			out = append(out, g.Instance)
		}
		return out
	}
	if got := instances(db.Grants(ctx, GrantFilter{})); len(got) != 4 {
		t.Errorf("all: %v", got)
	}
	if got := instances(db.Grants(ctx, GrantFilter{Instance: "i1"})); len(got) != 3 {
		t.Errorf("to i1: %v", got)
	}
	if err := db.Release(ctx, nil, "i1", "p", "s", "c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("release of another's grant: %v", err)
	}
	if err := db.Release(ctx, nil, "i2", "p", "s", "c"); err != nil {
		t.Error(err)
	}
	if _, ok, err := First(db.Grants(ctx, GrantFilter{Covering: &relay.Place{Platform: "p", Scope: "s", Chat: "c"}})); ok || err != nil {
		t.Errorf("after release: %v %v", ok, err)
	}
}
