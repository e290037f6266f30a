package manage_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/passthrough"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// healthy is a service that has nothing to say: a bot that is connected, and a gateway with somebody bound to it that
// has been here.
func healthy(t *testing.T) (*world, *server, *bird) {
	t.Helper()
	bot := newBird("pigeon", "1")
	bot.status = platforms.Status{State: platforms.Connected, Since: noon}
	live := &server{bots: []platforms.Platform{bot}}
	w := newWorld(t, live, bot)
	w.enroll(t, "home")
	w.seen(t, "home", noon)
	if _, err := w.Bind(t.Context(), system, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}); err != nil {
		t.Fatal(err)
	}
	return w, live, bot
}

// seen says when a gateway was here last.
func (w *world) seen(t *testing.T, g relay.GatewayID, at time.Time) {
	t.Helper()
	if err := w.db.UpdateGateway(t.Context(), nil, g, store.CameOrWent(at, true)); err != nil {
		t.Fatal(err)
	}
}

func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		seed func(t *testing.T, w *world, live *server, bot *bird)
		want []string // code and what it is about
	}{
		"nothing": {func(*testing.T, *world, *server, *bird) {}, nil},
		"a dead token": {func(_ *testing.T, _ *world, _ *server, bot *bird) {
			bot.status.State = platforms.BadCredentials
		}, []string{"HC101 pigeon:1"}},
		"another poller": {func(_ *testing.T, _ *world, _ *server, bot *bird) {
			bot.status.State, bot.status.Reason = platforms.Degraded, "another poller"
		}, []string{"HC130 pigeon:1"}},
		"a network that is not reached": {func(_ *testing.T, w *world, _ *server, bot *bird) {
			bot.status.State, w.now = platforms.Connecting, noon.Add(6*time.Minute)
		}, []string{"HC131 pigeon:1"}},
		"a start": {func(_ *testing.T, w *world, _ *server, bot *bird) {
			bot.status.State, w.now = platforms.Connecting, noon.Add(4*time.Minute)
		}, nil},
		"a gateway that never dialled": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			w.bind(t, "attic", "pigeon")
		}, []string{"HC401 gateway attic"}},
		"silent for a day while messages wait": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.now = noon.Add(25 * time.Hour)
		}, []string{"HC402 gateway home"}},
		"silent, and nothing waits": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.now = noon.Add(25 * time.Hour)
		}, nil},
		"a copied credential": {func(_ *testing.T, _ *world, live *server, _ *bird) {
			live.connected = "home" // of which the stub says so
		}, []string{"HC403 gateway home"}},
		"too old for files": {func(t *testing.T, w *world, _ *server, _ *bird) {
			if err := w.db.UpdateGateway(t.Context(), nil, "home", func(g *store.Gateway, _ *store.Instance) error { g.TooOld = true; return nil }); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC404 gateway home"}},
		"a bot that its gateway does not front, with messages": {func(t *testing.T, w *world, live *server, bot *bird) {
			w.put(t, "home", "e1")
			live.unfronted = map[relay.InstanceID][]relay.Bot{"home": {bot.bot}}
		}, []string{"HC405 gateway home"}},
		"a bot that its gateway does not front, with people": {func(_ *testing.T, _ *world, live *server, _ *bird) {
			live.fronts = func(relay.InstanceID, relay.Bot) bool { return false }
		}, []string{"HC405 gateway home"}},
		"a wake URL that fails": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.change(func(s *manage.Settings) {
				s.Poke = func(relay.InstanceID) *wake.Poke { return &wake.Poke{At: noon, Status: 502} }
			})
		}, []string{"HC406 gateway home"}},
		"a wake URL that answers": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.change(func(s *manage.Settings) {
				s.Poke = func(relay.InstanceID) *wake.Poke { return &wake.Poke{At: noon, Status: 200, Woken: true} }
			})
		}, nil},
		"a wake URL that cannot be used": {func(t *testing.T, w *world, _ *server, _ *bird) {
			if err := w.db.UpdateInstance(t.Context(), nil, "home", func(i *store.Instance) error { i.WakeFault = "it points inside"; return nil }); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC412 gateway home"}},
		"nobody bound": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			w.seen(t, "attic", noon)
		}, []string{"HC407 gateway attic"}},
		"a binding of a bot that is not there": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.bind(t, "home", "raven")
		}, []string{"HC408 raven"}},
		"a grant of a bot that is not there": {func(t *testing.T, w *world, _ *server, _ *bird) {
			g := store.Grant{Platform: "raven", Chat: "tower", Instance: "home", Tenant: "home"}
			if err := w.db.Claim(t.Context(), nil, g); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC409 raven"}},
		"dead letters": {func(t *testing.T, w *world, _ *server, _ *bird) {
			for _, id := range w.put(t, "home", "e1", "e2") {
				if err := w.db.Lanes.Bury(t.Context(), "home", id, store.DeadPoison); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"HC410 gateway home"}},
		"no gateway": {func(t *testing.T, w *world, _ *server, _ *bird) {
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "home"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC411 "}},
		"no bot": {func(_ *testing.T, _ *world, live *server, _ *bird) {
			live.bots = nil
		}, []string{"HC408 pigeon", "HC504 "}},
		"files that nobody fetches": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.change(func(s *manage.Settings) { s.Files = unread{} })
		}, []string{"HC413 gateway home"}},
		"calls with a wrong signature": {func(_ *testing.T, w *world, live *server, _ *bird) {
			bot := newCalled("1")
			live.bots = []platforms.Platform{bot}
			w.change(func(s *manage.Settings) {
				s.Hooks = calls{state: map[relay.Bot]passthrough.State{bot.bot: {Unsigned: 3}}}
			})
		}, []string{"HC132 pigeon:1"}},
		"the machine": {func(_ *testing.T, w *world, _ *server, bot *bird) {
			bot.status.State = platforms.BadCredentials
			w.change(func(s *manage.Settings) {
				s.Findings = func(bool) finding.List {
					return finding.List{finding.DiskLow.Of("/", "little room", "make room")}
				}
			})
		}, []string{"HC101 pigeon:1", "HC320 /"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, live, bot := healthy(t)
			tc.seed(t, w, live, bot)
			d, err := w.Diagnose(t.Context(), manage.Look{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range d.Findings {
				got = append(got, f.Code+" "+f.About)
				if fault := finding.Misworded(f); fault != "" {
					t.Errorf("%+v: %s", f, fault)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

func (w *world) bind(t *testing.T, name string, p relay.PlatformID) {
	t.Helper()
	b := store.Binding{Tenant: "home", Platform: p, User: "bob", Instance: relay.InstanceID(name)}
	if err := w.db.Bind(t.Context(), nil, b); err != nil {
		t.Fatal(err)
	}
}

// examined is a bot whose network tells how it stands there.
type examined struct {
	*bird
	says  platforms.Examination
	clock time.Duration // of the network, ahead of ours; 0: it does not tell
	asked *[]relay.Place
}

func (e examined) Examine(_ context.Context, chats []relay.Place) platforms.Examination {
	*e.asked = chats
	if e.clock != 0 {
		e.says.Clock = time.Now().Add(e.clock)
	}
	return e.says
}

func TestDiagnoseAsksTheNetworks(t *testing.T) {
	dead := finding.DeadToken.Of("pigeon:1", "the token is dead", "get another")
	for name, tc := range map[string]struct {
		look  manage.Look
		says  finding.List
		state platforms.State
		clock time.Duration
		want  []string
	}{
		"all is well":              {state: platforms.Connected},
		"what it says":             {state: platforms.Connected, says: finding.List{dead}, want: []string{"HC101 the token is dead"}},
		"what both say, said once": {state: platforms.BadCredentials, says: finding.List{dead}, want: []string{"HC101 the token is dead"}},
		"it knows better":          {state: platforms.Degraded, says: finding.List{dead}, want: []string{"HC101 the token is dead"}},
		"it knows less": {state: platforms.Degraded, says: finding.List{finding.NobodyBound.Of("pigeon:1", "a warning", "fix")},
			want: []string{"HC130 it is degraded", "HC407 a warning"}},
		"offline":                {state: platforms.Connected, says: finding.List{dead}, look: manage.Look{Offline: true}},
		"our clock is behind":    {state: platforms.Connected, clock: 40 * time.Second, want: []string{"HC201 this machine's clock is 40 s behind"}},
		"our clock is ahead":     {state: platforms.Connected, clock: -5 * time.Minute, want: []string{"HC201 this machine's clock is 5m0s ahead"}},
		"our clock is a bit off": {state: platforms.Connected, clock: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []relay.Place
				bot := examined{newBird("pigeon", "1"), platforms.Examination{Findings: tc.says}, tc.clock, &asked}
				bot.status = platforms.Status{State: tc.state}
				w := newWorld(t, &server{bots: []platforms.Platform{bot, newBird("raven", "2")}})
				w.change(func(s *manage.Settings) { s.Run = "r1" })
				w.enroll(t, "home")
				place := relay.Place{Platform: "pigeon", Scope: "town", Chat: "loft"}
				if err := w.db.Claim(t.Context(), nil, store.Grant{Platform: place.Platform, Scope: place.Scope, Chat: place.Chat, Instance: "home", Tenant: "home"}); err != nil {
					t.Fatal(err)
				}
				d, err := w.Diagnose(t.Context(), tc.look)
				if err != nil || d.Run != "r1" {
					t.Fatalf("%+v, %v; want the run", d, err)
				}
				var got []string
				for _, f := range d.Findings {
					if f.About == "pigeon:1" || f.Code == "HC201" {
						got = append(got, f.Code+" "+f.What)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("found (-want +got):\n%s", diff)
				}
				if tc.look.Offline != (asked == nil) || asked != nil && !slices.Equal(asked, []relay.Place{place}) {
					t.Errorf("asked about %v", asked)
				}
			})
		})
	}
}

// stuck is a bot whose network does not answer.
type stuck struct{ *bird }

func (stuck) Examine(ctx context.Context, _ []relay.Place) platforms.Examination {
	<-ctx.Done()
	return platforms.Examination{}
}

func TestANetworkThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if got := manage.Examine(t.Context(), []platforms.Platform{stuck{newBird("pigeon", "1")}, stuck{newBird("pigeon", "2")}}, nil); len(got) != 0 {
			t.Errorf("found %+v", got)
		}
		if took := time.Since(begin); took > 3500*time.Millisecond {
			t.Errorf("it took %v, want 3.5 s at most: doctor has 5", took)
		}
	})
}
