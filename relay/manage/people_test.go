package manage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestLinkOffersADeepLinkPerPlatform(t *testing.T) {
	nameless := newBird("raven", "3")
	nameless.status.Name = ""
	w := newWorld(t, nil, newBird("pigeon", "1"), newBird("pigeon", "2"), nameless)
	w.enroll(t, "home")
	l, err := w.Link(t.Context(), system, manage.LinkFor{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[relay.PlatformID]string{"pigeon": "https://coo.example/" + l.Code}
	if diff := cmp.Diff(want, l.DeepLinks); diff != "" || l.Code == "" {
		t.Errorf("code %q, deep links (-want +got):\n%s", l.Code, diff)
	}
	if got := l.ExpiresAt.Sub(noon); got != 10*time.Minute {
		t.Errorf("good for %s, want 10m", got)
	}
	l, err = w.Link(t.Context(), system, manage.LinkFor{Name: "home", Platform: "raven"})
	if err != nil || len(l.DeepLinks) != 0 {
		t.Errorf("for another platform: deep links %v, %v", l.DeepLinks, err)
	}
	_, err = w.Link(t.Context(), system, manage.LinkFor{Name: "home", Platform: "pidgeon"})
	wantField(t, err, "platform")
}

// TestLinkSaysWhereToWriteABang: on networks that keep "/" for themselves.
func TestLinkSaysWhereToWriteABang(t *testing.T) {
	knower := struct {
		*bird
		*platforms.CommandNames
	}{newBird("raven", "1"), new(platforms.CommandNames)}
	w := newWorld(t, nil, knower, newBird("pigeon", "1"))
	w.enroll(t, "home")
	for platform, want := range map[relay.PlatformID][]relay.PlatformID{"": {"raven"}, "raven": {"raven"}, "pigeon": nil} {
		l, err := w.Link(t.Context(), system, manage.LinkFor{Name: "home", Platform: platform})
		if diff := cmp.Diff(want, l.Bang); diff != "" || err != nil {
			t.Errorf("for %q: %v (-want +got):\n%s", platform, err, diff)
		}
	}
}

// TestWhoGetsDirectMessages: whoever is bound to a second gateway is told that the first one keeps the direct
// messages, and the list says so of both.
func TestWhoGetsDirectMessages(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "kids")
	bind := func(name string) manage.Binding {
		t.Helper()
		b, err := w.Bind(t.Context(), system, manage.Bind{Name: name, Platform: "pigeon", User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := func(to relay.InstanceID) {
		t.Helper()
		for _, name := range []string{"home", "kids"} {
			g, err := w.Gateway(t.Context(), manage.Named{Name: name})
			if err != nil || len(g.Holds.People) != 1 || g.Holds.People[0].DirectTo != to {
				t.Errorf("of %s: %+v, %v; want direct messages to go to %s", name, g.Holds.People, err, to)
			}
		}
	}
	if b := bind("home"); b.DirectTo != "home" {
		t.Errorf("the first binding: direct messages go to %q", b.DirectTo)
	}
	w.now = noon.Add(time.Minute)
	if b := bind("kids"); b.DirectTo != "home" {
		t.Errorf("the second binding: direct messages go to %q", b.DirectTo)
	}
	want("home")
	if _, err := w.SetDMDefault(t.Context(), system, manage.Bind{Name: "kids", Platform: "pigeon", User: "ann"}); err != nil {
		t.Fatal(err)
	}
	want("kids")
}

func TestBindAndUnbind(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home")
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	for range 2 {
		if _, err := w.Bind(t.Context(), system, ann); err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.db.Bindings(t.Context(), store.BindingFilter{Platform: "pigeon", User: "ann"})
	if err != nil || len(got) != 1 || got[0].Instance != "home" || got[0].Tenant != "home" {
		t.Errorf("bindings %+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		bind manage.Bind
		want manage.Why
	}{
		"an unknown gateway":  {manage.Bind{Name: "nobody", Platform: "pigeon", User: "ann"}, manage.NotFound},
		"an unknown platform": {manage.Bind{Name: "home", Platform: "pidgeon", User: "ann"}, manage.Usage},
		"no user":             {manage.Bind{Name: "home", Platform: "pigeon"}, manage.Usage},
		"a user that hides":   {manage.Bind{Name: "home", Platform: "pigeon", User: "a\u200bb"}, manage.Usage},
		"a user with a blank": {manage.Bind{Name: "home", Platform: "pigeon", User: "a b"}, manage.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Bind(t.Context(), system, tc.bind)
			wantRefusal(t, err, tc.want)
		})
	}
	if _, err := w.Unbind(t.Context(), system, ann); err != nil {
		t.Error(err)
	}
	_, err = w.Unbind(t.Context(), system, ann)
	wantRefusal(t, err, manage.NotFound)
}

// TestBindForCommands: a person may be linked for commands; what cannot reach a gateway as such is refused.
func TestBindForCommands(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	w.enroll(t, "home", "tools")
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	forCommands := func(name string, commands ...string) (manage.Binding, error) {
		b := ann
		b.Name, b.Commands = name, commands
		return w.Bind(t.Context(), system, b)
	}
	got, err := forCommands("tools", "/add", "/größe")
	want := map[string]any{"platform": "pigeon", "userId": "ann", "instanceId": "tools", "commands": []any{"/add", "/größe"}}
	if diff := cmp.Diff(want, keysOf(t, got)); diff != "" || err != nil {
		t.Errorf("%v; linked (-want +got):\n%s", err, diff)
	}
	if got, err := w.Bind(t.Context(), system, ann); err != nil || got.DirectTo != "home" {
		t.Errorf("linked to another for everything: %+v, %v; want direct messages there", got, err)
	}
	g, err := w.Gateway(t.Context(), manage.Named{Name: "tools"})
	if err != nil || len(g.Holds.People) != 1 || g.Holds.People[0].DirectTo != "home" || !slices.Equal(g.Holds.People[0].Commands, []string{"/add", "/größe"}) {
		t.Errorf("holds %+v, %v", g.Holds, err)
	}
	self, err := w.Self(t.Context(), manage.Named{Name: "tools"})
	if err != nil || len(self.Bound) != 1 || !slices.Equal(self.Bound[0].Commands, []string{"/add", "/größe"}) {
		t.Errorf("itself: %+v, %v", self.Bound, err)
	}
	_, err = w.SetDMDefault(t.Context(), system, manage.Bind{Name: "tools", Platform: "pigeon", User: "ann"})
	wantField(t, err, "userId")
	_, err = forCommands("home", "/new", "/add")
	wantRefusal(t, err, manage.Held)
	if want := `/add of pigeon person ann goes to "tools" already`; err.Error() != want {
		t.Errorf("taken: %q, want %q", err, want)
	}
	for _, wrong := range [][]string{
		{""}, {"add"}, {"/"}, {"/a b"}, {"/add@bot"}, {"/" + strings.Repeat("x", 33)}, {"/new", "/new"},
		{"/link"}, {"/Agent"}, {"/whoami"}, {"/unlink"}, {"/approve"}, {"/deny"}, {"/Stop"}, make([]string, 101),
	} {
		_, err := forCommands("tools", wrong...)
		wantField(t, err, "commands")
		_, err = w.Link(t.Context(), system, manage.LinkFor{Name: "tools", Commands: wrong})
		wantField(t, err, "commands")
	}
}

func TestDMDefault(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "attic")
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	for _, name := range []string{"home", "attic"} {
		if _, err := w.Bind(t.Context(), system, manage.Bind{Name: name, Platform: "pigeon", User: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"attic", "home", "home"} {
		ann.Name = name
		got, err := w.SetDMDefault(t.Context(), system, ann)
		want := map[string]any{"platform": "pigeon", "userId": "ann", "instanceId": name}
		if diff := cmp.Diff(want, keysOf(t, got)); diff != "" || err != nil {
			t.Errorf("%v; default (-want +got):\n%s", err, diff)
		}
		bound, err := w.db.Bindings(t.Context(), store.BindingFilter{Platform: "pigeon", User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bound {
			if b.DMDefault != (string(b.Instance) == name) {
				t.Errorf("%s is the default: %t, after %s was made it", b.Instance, b.DMDefault, name)
			}
		}
	}
	_, err := w.SetDMDefault(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "bea"})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.SetDMDefault(t.Context(), system, manage.Bind{Name: "nobody", Platform: "pigeon", User: "ann"})
	wantRefusal(t, err, manage.NotFound)
	_, err = w.SetDMDefault(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon"})
	wantField(t, err, "userId")
}

func TestPrincipal(t *testing.T) {
	bea := store.Person{Platform: "raven", User: "bea"}
	for name, tc := range map[string]struct {
		set  manage.SetPrincipal
		want manage.Why // empty: accepted
	}{
		"owner only":                {manage.SetPrincipal{Policy: relay.OwnerOnly}, ""},
		"anyone":                    {manage.SetPrincipal{Policy: relay.AnyOne}, ""},
		"a list":                    {manage.SetPrincipal{Policy: relay.AllowList, Allow: []store.Person{bea}}, ""},
		"an empty list":             {manage.SetPrincipal{Policy: relay.AllowList}, manage.Usage},
		"a list that says nothing":  {manage.SetPrincipal{Policy: relay.AnyOne, Allow: []store.Person{bea}}, manage.Usage},
		"an unknown policy":         {manage.SetPrincipal{Policy: "everyone"}, manage.Usage},
		"a list of another network": {manage.SetPrincipal{Policy: relay.AllowList, Allow: []store.Person{{Platform: "x", User: "y"}}}, manage.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.enroll(t, "home")
			tc.set.Name = "home"
			_, err := w.SetPrincipal(t.Context(), system, tc.set)
			if tc.want != "" {
				wantRefusal(t, err, tc.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i, err := store.Only(w.db.Instances(t.Context(), "home"))
			if err != nil {
				t.Fatal(err)
			}
			want := store.Principal{Policy: tc.set.Policy, Allow: tc.set.Allow}
			if diff := cmp.Diff(want, i.Principal); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRelevanceChangesOnlyWhatIsGiven(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	w.enroll(t, "home")
	no, yes := false, true
	free := []relay.ChatID{"-100"}
	want := manage.Relevance{Instance: "home", Platform: "pigeon", RequireAddress: true, Free: []relay.ChatID{}, Context: relay.ContextGranted}
	for _, step := range []struct {
		name string
		set  manage.SetRelevance
		then func()
	}{
		{"a look", manage.SetRelevance{}, func() {}},
		{"address", manage.SetRelevance{RequireAddress: &no}, func() { want.RequireAddress = false }},
		{"free", manage.SetRelevance{Free: &free}, func() { want.Free = free }},
		{"bots and owner", manage.SetRelevance{AllowBots: &yes, OwnerMustAddress: &yes}, func() { want.AllowBots, want.OwnerMustAddress = true, true }},
		{"context", manage.SetRelevance{Context: new(relay.ContextAll)}, func() { want.Context = relay.ContextAll }},
		{"no free chats", manage.SetRelevance{Free: &[]relay.ChatID{}}, func() { want.Free = []relay.ChatID{} }},
	} {
		step.then()
		step.set.Name, step.set.Platform = "home", "pigeon"
		if _, err := w.SetRelevance(t.Context(), system, step.set); err != nil {
			t.Fatal(err)
		}
		got, err := w.SetRelevance(t.Context(), system, manage.SetRelevance{Name: "home", Platform: "pigeon"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.name, diff)
		}
	}
	unfit := manage.SetRelevance{Name: "home", Platform: "pigeon", Context: new(relay.ContextPolicy("some"))}
	if got, err := w.SetRelevance(t.Context(), system, unfit); err == nil {
		t.Errorf("a policy that is none made %+v", got)
	}
	i, err := store.Only(w.db.Instances(t.Context(), "home"))
	if err != nil || len(i.Relevance) != 1 {
		t.Errorf("stored %+v, %v; want the one platform", i.Relevance, err)
	}
}
