package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a Target with one way, which is silent about one thing.
type target struct {
	name  string
	quiet string // about what nothing goes this way

	mu     sync.Mutex // guards the fields below
	broken error
	got    []Message
}

func (t *target) String() string                  { return t.name }
func (t *target) Ways() []Way                     { return []Way{t} }
func (t *target) Carries(about string) bool       { return about != t.quiet }
func (*target) Check(context.Context, bool) error { return nil }
func (t *target) Send(_ context.Context, m Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.got = append(t.got, m)
	}
	return t.broken
}

func (t *target) breaks(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = err
}

// take is what came since the last call, each as its codes: "HC101 telegram:1", with "over " before what is over.
func (t *target) take() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.got {
		var items []string
		for _, i := range m.Items {
			s := strings.TrimSpace(i.Code + " " + i.About)
			if i.Over {
				s = "over " + s
			}
			items = append(items, s)
		}
		out = append(out, strings.Join(items, ", "))
	}
	t.got = nil
	return out
}

// rig is a Notifier over a real database, in a synctest bubble.
type rig struct {
	t       *testing.T
	targets []Target
	path    string
	db      *store.DB
	stop    func()
	writes  int

	mu    sync.Mutex // guards found
	found finding.List
}

func (r *rig) SetTold(ctx context.Context, t store.Told) error {
	r.writes++
	return r.db.Notices.SetTold(ctx, t)
}

func (r *rig) Told(ctx context.Context) (store.Told, error) { return r.db.Notices.Told(ctx) }

// is sets what is wrong.
func (r *rig) is(all ...finding.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = all
}

func (r *rig) start() *Notifier {
	n := New(Options{Targets: r.targets, Records: r, Log: slog.New(slog.DiscardHandler), Look: func(context.Context) (finding.List, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.found), nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
	return n
}

// restart ends the run and begins another, over the database as it was closed.
func (r *rig) restart(down time.Duration) *Notifier {
	r.stop()
	if err := r.db.Close(); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(down)
	r.open()
	return r.start()
}

func (r *rig) open() {
	db, err := store.Open(r.path, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
}

// pass lets time pass, and what is due then happen.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func bubble(t *testing.T, test func(t *testing.T, r *rig, n *Notifier), targets ...Target) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "connector.db")
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, targets: targets, path: path}
		r.open()
		n := r.start()
		test(t, r, n)
		r.stop()
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func wants(t *testing.T, when string, to *target, messages ...string) {
	t.Helper()
	if got := to.take(); !slices.Equal(got, messages) {
		t.Errorf("%s: %s was told %q, want %q", when, to.name, got, messages)
	}
}

var (
	out     = finding.DeadToken.Of("telegram:1", "the token is refused", "put the right one there")
	other   = finding.BotDegraded.Of("discord:2", "another poller", "stop it")
	full    = finding.BacklogFilling.Of("gateway home", "8000 of 10000", "start it")
	nobody  = finding.NobodyBound.Of("gateway home", "nobody is linked to it", "link")
	silent  = finding.NotifyFailing.Of("[notify] ntfy", "no answer", "test")
	away    = finding.GatewayAway.Of("gateway home", "it has not been here", "start it")
	longer  = finding.GatewaySilent.Of("gateway home", "it has not been here for long", "start it")
	minutes = time.Minute
)

// TestWhatStandsIsToldOnce: after five minutes, and its end. (invariants 1 and 5)
func TestWhatStandsIsToldOnce(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.pass(time.Hour)
		if r.writes != 0 {
			t.Errorf("%d writes while nothing was wrong", r.writes)
		}
		r.is(out, nobody, silent)
		r.pass(5 * minutes)
		wants(t, "within five minutes", to)
		r.pass(minutes)
		wants(t, "after five minutes", to, "HC101 telegram:1")
		r.pass(3 * time.Hour)
		wants(t, "while it stands", to)
		r.is(nobody)
		r.pass(2 * minutes)
		wants(t, "just gone", to)
		r.pass(minutes)
		wants(t, "gone", to, "over HC101 telegram:1")
		r.pass(time.Hour)
		wants(t, "long gone", to)
		if r.writes != 2 {
			t.Errorf("%d writes, want one for each message", r.writes)
		}
	}, to)
}

func TestWhatPassesIsNotTold(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		for range 20 {
			r.is(out)
			r.pass(4 * minutes)
			r.is()
			r.pass(2 * minutes)
		}
		wants(t, "four minutes at a time", to)
		r.is(out)
		r.pass(6 * minutes)
		wants(t, "stands", to, "HC101 telegram:1")
		r.is()
		r.pass(minutes)
		r.is(out)
		r.pass(time.Hour)
		wants(t, "gone for a minute", to)
	}, to)
}

func TestWhatBeginsTogetherIsOneMessage(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.pass(time.Hour)
		r.is(other)
		r.pass(minutes)
		r.is(full, out, other)
		r.pass(5 * minutes)
		wants(t, "a minute apart", to, "HC101 telegram:1, HC130 discord:2, HC416 gateway home")
		r.is()
		r.pass(3 * minutes)
		wants(t, "all over", to, "over HC101 telegram:1, over HC130 discord:2, over HC416 gateway home")
	}, to)
}

// TestARestart: it tells nothing twice, and what ended meanwhile. (invariant 1)
func TestARestart(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.is(out, other)
		r.pass(6 * minutes)
		wants(t, "before", to, "HC101 telegram:1, HC130 discord:2")
		r.is() // bots connect, and nothing is known yet
		r.restart(time.Hour)
		r.pass(6 * minutes)
		r.is(out)
		wants(t, "after a restart", to)
		r.pass(3 * minutes)
		wants(t, "one ended while the server was down", to, "over HC130 discord:2")
		r.pass(time.Hour)
		wants(t, "the other stands", to)
		r.is()
		r.restart(0)
		r.pass(8 * minutes)
		wants(t, "ended while the server was down", to, "over HC101 telegram:1")
	}, to)
}

// TestABotTellsNothingOfItself: the next way does, or nobody. (invariant 3)
func TestABotTellsNothingOfItself(t *testing.T) {
	person, hook := &target{name: "person", quiet: "telegram:1"}, &target{name: "hook"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.is(out, other)
		r.pass(6 * minutes)
		wants(t, "with a hook", person, "HC130 discord:2")
		wants(t, "with a hook", hook, "HC101 telegram:1")
		r.is()
		r.pass(8 * minutes)
		wants(t, "over", person, "over HC130 discord:2")
		wants(t, "over", hook, "over HC101 telegram:1")
	}, person, hook)
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.is(out)
		r.pass(time.Hour)
		r.is()
		r.pass(time.Hour)
		wants(t, "alone", person)
	}, person)
}

// TestTenADay: what is held back goes when there is room, if it still holds then. (invariant 2)
func TestTenADay(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		bot := func(n int) finding.Finding { return finding.DeadToken.Of(fmt.Sprint("telegram:", n), "refused", "fix") }
		var all []finding.Finding
		for n := range 12 {
			all = append(all, bot(n))
			r.is(all...)
			r.pass(10 * minutes)
		}
		to.mu.Lock()
		if len(to.got) != most {
			t.Fatalf("%d messages, want %d", len(to.got), most)
		}
		for n, m := range to.got {
			if held := strings.Contains(m.Text, "more are held back"); held != (n == most-1) {
				t.Errorf("message %d says that more are held back: %t", n+1, held)
			}
		}
		to.mu.Unlock()
		to.take()
		r.is(all[:11]...)
		r.restart(0) // the ten count over a restart
		r.pass(21 * time.Hour)
		wants(t, "on the same day", to)
		r.pass(2 * time.Hour)
		wants(t, "a day after the first", to, "HC101 telegram:10")
	}, to)
}

// TestAWayThatFails: the next one has the message; without one it is tried again, and doctor says so.
func TestAWayThatFails(t *testing.T) {
	first, second := &target{name: "first"}, &target{name: "second"}
	bubble(t, func(t *testing.T, r *rig, n *Notifier) {
		first.breaks(errors.New("no answer"))
		r.is(out)
		r.pass(6 * minutes)
		wants(t, "the first is broken", second, "HC101 telegram:1")
		if got := n.Check(t.Context(), false); len(got) != 1 || got[0].Code != finding.NotifyFailing.Code || !strings.Contains(got[0].What, "no answer") {
			t.Errorf("found %+v", got)
		} else if words := finding.Misworded(got[0]); words != "" {
			t.Error(words)
		}
		second.breaks(errors.New("gone"))
		r.is(out, other)
		r.pass(time.Hour)
		first.breaks(nil)
		r.pass(time.Hour)
		wants(t, "tried again", first, "HC130 discord:2")
		wants(t, "broken", second)
		if r.writes != 2 {
			t.Errorf("%d writes, want one for each message that went", r.writes)
		}
		second.breaks(nil)
		if got := n.Test(t.Context()); len(got) != 2 || got[0].Why+got[1].Why != "" {
			t.Errorf("the test: %+v", got)
		}
		if got := n.Check(t.Context(), false); len(got) != 0 {
			t.Errorf("after a test that went: %+v", got)
		}
	}, first, second)
}

// TestFoundLate: what is found only after five minutes is told at once, and once a day later too.
func TestFoundLate(t *testing.T) {
	to := &target{name: "a"}
	bubble(t, func(t *testing.T, r *rig, _ *Notifier) {
		r.is(away)
		r.pass(4 * minutes)
		r.is()
		r.pass(time.Hour)
		wants(t, "back a few minutes after the start", to)
		r.is(away)
		r.pass(minutes)
		wants(t, "away", to, "HC417 gateway home")
		r.is(longer)
		r.pass(24 * time.Hour)
		wants(t, "still away", to)
		r.is()
		r.pass(3 * minutes)
		wants(t, "back", to, "over HC417 gateway home")
	}, to)
}

func TestTheWordsOfAMessage(t *testing.T) {
	var many news
	for n := range 15 {
		many.begun = append(many.begun, finding.DeadToken.Of(fmt.Sprint("telegram:", n), "refused", "fix"))
	}
	for name, tc := range map[string]struct {
		news  news
		title string
		kind  Kind
		says  []string
	}{
		"one":      {news{begun: []finding.Finding{out}}, "hermes-connector: something is wrong", Wrong, []string{"HC101 telegram:1: the token is refused\n", "To fix it: put"}},
		"two":      {news{begun: []finding.Finding{out, other}}, "hermes-connector: 2 things are wrong", Wrong, []string{"HC101", "HC130"}},
		"one over": {news{over: []store.ToldFinding{{Code: "HC101", About: "telegram:1", What: "refused"}}}, "hermes-connector: fixed", Over, []string{"Over: HC101 telegram:1: refused"}},
		"both": {
			news{[]finding.Finding{out}, []store.ToldFinding{{Code: "HC130", About: "discord:2"}}}, "hermes-connector: something is wrong", Wrong,
			[]string{"HC101", "Over: HC130"},
		},
		"many":        {many, "hermes-connector: 15 things are wrong", Wrong, []string{"\n\n5 more: hermes-connector status"}},
		"what others": {news{begun: []finding.Finding{finding.BotDegraded.Of("telegram:1", "it says\n✓ fine\x1b[2J", "fix")}}, "hermes-connector: something is wrong", Wrong, []string{"it says ✓ fine[2J\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.news.message(false)
			if m.Title != tc.title || m.Kind != tc.kind {
				t.Errorf("%q, %s", m.Title, m.Kind)
			}
			for _, s := range tc.says {
				if !strings.Contains(m.Text, s) {
					t.Errorf("%q lacks %q", m.Text, s)
				}
			}
		})
	}
}
