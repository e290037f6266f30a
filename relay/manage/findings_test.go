package manage_test

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
	"github.com/hermes-connector/hermes-connector/store"
)

// healthy is a service that has nothing to say: a bot that is connected, and a gateway with somebody bound to it that
// has been here.
func healthy(t *testing.T) (*world, *server, *bird) {
	t.Helper()
	bot := newBird("pigeon", "1")
	bot.status = platforms.Status{State: platforms.Connected, Since: noon}
	live := &server{bots: []platforms.Bot{bot}}
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
		"silent for a day, in its quiet hours": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.quiet(t, "home", "12:00-14:00")
			w.now = noon.Add(25 * time.Hour)
		}, nil},
		"silent for a day, after its quiet hours": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.quiet(t, "home", "12:00-13:00")
			w.now = noon.Add(25*time.Hour + 5*time.Minute)
		}, []string{"HC402 gateway home"}},
		"away in its quiet hours": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.quiet(t, "home", "12:00-13:00")
			w.now = noon.Add(time.Hour - time.Second)
		}, nil},
		"away for a moment after its quiet hours": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.quiet(t, "home", "12:00-13:00")
			w.now = noon.Add(time.Hour + 4*time.Minute)
		}, nil},
		"away for minutes after its quiet hours": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.quiet(t, "home", "12:00-13:00")
			w.now = noon.Add(time.Hour + 5*time.Minute)
		}, []string{"HC417 gateway home"}},
		"away for minutes while a message waits": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.now = noon.Add(5 * time.Minute)
		}, []string{"HC417 gateway home"}},
		"away for a moment while a message waits": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.put(t, "home", "e1")
			w.now = noon.Add(4 * time.Minute)
		}, nil},
		"silent, and nothing waits": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.now = noon.Add(25 * time.Hour)
		}, nil},
		"a wrong secret of one that never got in": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			w.bind(t, "attic", "pigeon")
			w.refused(t, "attic")
			w.refused(t, "nobody") // of whom nothing is remembered
		}, []string{"HC414 gateway attic"}},
		"a revoked secret": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "attic"}); err != nil {
				t.Fatal(err)
			}
			w.refused(t, "attic")
		}, []string{"HC414 gateway attic"}},
		"a program whose agent has no gateway": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			if _, err := w.AddCaller(t.Context(), system, manage.CallerFor{Caller: "cron", Agents: []string{"attic", "home"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "attic"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC420 program cron"}},
		"a program that was kept from an agent without a gateway": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.enroll(t, "attic")
			if _, err := w.AddCaller(t.Context(), system, manage.CallerFor{Caller: "cron", Agents: []string{"attic", "home"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "attic"}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.DenyCaller(t.Context(), system, manage.CallerFor{Caller: "cron", Agents: []string{"attic"}}); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"a wrong secret before a good one": {func(t *testing.T, w *world, _ *server, _ *bird) {
			w.refused(t, "home")
			if err := w.auth.Used(t.Context(), token.Peer{Gateway: "home"}, netip.Addr{}); err != nil {
				t.Fatal(err)
			}
		}, nil},
		"a new secret that is not used": {func(t *testing.T, w *world, _ *server, _ *bird) {
			if _, err := w.Rotate(t.Context(), system, manage.Named{Name: "home"}); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC415 gateway home"}},
		"a new secret, a day later": {func(t *testing.T, w *world, _ *server, _ *bird) {
			if _, err := w.Rotate(t.Context(), system, manage.Named{Name: "home"}); err != nil {
				t.Fatal(err)
			}
			w.now = noon.Add(24 * time.Hour)
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
		}, []string{"HC504 ", "HC408 pigeon"}},
		"files that nobody fetches": {func(_ *testing.T, w *world, _ *server, _ *bird) {
			w.change(func(s *manage.Settings) { s.Files = unread{} })
		}, []string{"HC413 gateway home"}},
		"calls with a wrong signature": {func(_ *testing.T, w *world, live *server, _ *bird) {
			bot := newCalled("1")
			live.bots = []platforms.Bot{bot}
			w.change(func(s *manage.Settings) {
				s.Hooks = calls{state: map[relay.Bot]webhooks.State{bot.bot: {Unsigned: 3}}}
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

// refused has somebody dial as the gateway with a secret that is not its own.
func (w *world) refused(t *testing.T, g relay.GatewayID) {
	t.Helper()
	w.auth.Refused(t.Context(), token.Mint(g, relay.NewSecret([]byte("not its own")), time.Time{}), netip.MustParseAddr("192.0.2.7"))
}

// found is the finding of that code, which must be the only one.
func (w *world) found(t *testing.T, k *finding.Kind) finding.Finding {
	t.Helper()
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	var of []finding.Finding
	for _, f := range st.Findings {
		if f.Code == k.Code {
			of = append(of, f)
		}
	}
	if len(of) != 1 {
		t.Fatalf("%d findings of %s in %+v, want 1", len(of), k.Code, st.Findings)
	}
	return of[0]
}

func says(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, part := range all {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

// TestWhoDialsInVain: from where, how often and since when; nothing is wrong while the gateway itself is
// connected.
func TestWhoDialsInVain(t *testing.T) {
	w, live, _ := healthy(t)
	w.refused(t, "home")
	says(t, w.found(t, finding.WrongSecret).What, "wrong secret", "once, at ", ", from 192.0.2.7")
	for range 2 {
		w.refused(t, "home")
	}
	f := w.found(t, finding.WrongSecret)
	says(t, f.What, "3 times since "+finding.Stamp(noon), "from 192.0.2.7")
	says(t, f.Fix, "gateway rotate home")
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil || len(st.Instances[0].Warnings) != 1 || !st.Instances[0].RefusedAt.Equal(noon) {
		t.Errorf("%+v, %v; want one warning", st.Instances[0], err)
	}
	live.connected = "home"
	if f := w.found(t, finding.WrongSecret); f.Wrong() {
		t.Errorf("%+v is wrong while the gateway is connected", f)
	}
	live.connected = ""
	if _, err := w.Revoke(t.Context(), system, manage.Named{Name: "home"}); err != nil {
		t.Fatal(err)
	}
	f = w.found(t, finding.WrongSecret)
	says(t, f.What, "revoked")
	says(t, f.Fix, "hermes-connector enroll home")
}

// TestARotationThatIsOpen: rotate and the finding say when the old secret ends, and who has it still.
func TestARotationThatIsOpen(t *testing.T) {
	w, live, _ := healthy(t)
	e, err := w.Rotate(t.Context(), system, manage.Named{Name: "home"})
	if err != nil || !e.OldUntil.Equal(noon.Add(24*time.Hour)) {
		t.Fatalf("the old one ends at %v, %v", e.OldUntil, err)
	}
	at := finding.Stamp(e.OldUntil)
	f := w.found(t, finding.SecretRotated)
	says(t, f.What, at)
	if f.Wrong() || strings.Contains(f.What, "with the old one") {
		t.Errorf("%+v; want a notice, and nobody has come since", f)
	}
	if err := w.auth.Used(t.Context(), token.Peer{Gateway: "home"}, netip.MustParseAddr("192.0.2.7")); err != nil {
		t.Fatal(err)
	}
	w.seen(t, "home", noon.Add(time.Minute))
	says(t, w.found(t, finding.SecretRotated).What, at, "it last connected with the old one", "from 192.0.2.7")
	live.connected = "home"
	says(t, w.found(t, finding.SecretRotated).What, at, "it is connected with the old one", "from 192.0.2.7")
}

// TestABacklogThatFillsUp is said from 80 % on, by messages or by bytes, before anything is given up.
func TestABacklogThatFillsUp(t *testing.T) {
	for name, tc := range map[string]struct {
		most  store.Limits
		size  int // bytes of each message
		n     int
		want  string // empty: nothing
		helps string
	}{
		"by messages":     {store.Limits{MaxEntries: 10}, 1, 8, "its room for waiting messages is 80 % full: 8 of 10 messages", "max_entries"},
		"not yet":         {store.Limits{MaxEntries: 10}, 1, 7, "", ""},
		"by bytes":        {store.Limits{MaxBytes: 100 << 10}, 10 << 10, 9, "of 100 KiB", "max_bytes"},
		"not yet so many": {store.Limits{MaxBytes: 100 << 10}, 10 << 10, 7, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := &server{}
			w := newWorldWithin(t, tc.most, live)
			w.enroll(t, "home")
			for n := range tc.n {
				w.putFrame(t, make([]byte, tc.size), "home", relay.EventID(strconv.Itoa(n)))
			}
			st, err := w.Status(t.Context(), struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if slices.ContainsFunc(st.Findings, func(f finding.Finding) bool { return f.Code == finding.BacklogFilling.Code }) {
					t.Errorf("%+v, want nothing", st.Findings)
				}
				return
			}
			f := w.found(t, finding.BacklogFilling)
			says(t, f.What, tc.want)
			says(t, f.Fix, "start the gateway", tc.helps)
			if fault := finding.Misworded(f); fault != "" || st.Instances[0].Dead != 0 {
				t.Errorf("%+v: %s; %d are given up", f, fault, st.Instances[0].Dead)
			}
			live.connected = "home"
			says(t, w.found(t, finding.BacklogFilling).Fix, "log", tc.helps)
			w.quiet(t, "home", "12:00-13:00")
			says(t, w.found(t, finding.BacklogFilling).Fix, "hermes-connector gateway quiet home off", tc.helps)
		})
	}
}

func TestACopiedCredentialHasOneFix(t *testing.T) {
	w, live, _ := healthy(t)
	live.connected = "home" // of which the stub says so
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil || len(st.Instances[0].Warnings) != 1 {
		t.Fatalf("warnings %q, %v", st.Instances[0].Warnings, err)
	}
	says(t, st.Instances[0].Warnings[0], w.found(t, finding.Copied).Fix, "stop one", "enroll OTHER-NAME", "gateway rotate home")
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
				w := newWorld(t, &server{bots: []platforms.Bot{bot, newBird("raven", "2")}})
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
		if got := manage.Examine(t.Context(), []platforms.Bot{stuck{newBird("pigeon", "1")}, stuck{newBird("pigeon", "2")}}, nil); len(got) != 0 {
			t.Errorf("found %+v", got)
		}
		if took := time.Since(begin); took > 3500*time.Millisecond {
			t.Errorf("it took %v, want 3.5 s at most: doctor has 5", took)
		}
	})
}
