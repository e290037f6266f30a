package status

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// canary stands for what must be on no page.
const canary = "canary-5f1d"

// fake is a Service of fixed answers.
type fake struct {
	mu        sync.Mutex // guards status while a page is kept fresh
	status    manage.Status
	gateways  []manage.Gateway
	decisions []gate.Decision
	explained manage.Explain // what was asked last
	link      manage.Link
	err       error
	asked     int
	linked    string
	did       []string // what was replayed, rotated and released
	by        audit.Actor
}

func (f *fake) Status(context.Context, struct{}) (manage.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.status, f.err
}

// becomes changes what Status answers.
func (f *fake) becomes(change func(*manage.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// fails has Status fail.
func (f *fake) fails(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) Explain(_ context.Context, e manage.Explain) ([]gate.Decision, error) {
	f.explained = e
	return f.decisions, nil
}
func (f *fake) Gateways(context.Context, struct{}) ([]manage.Gateway, error) { return f.gateways, nil }
func (f *fake) Gateway(_ context.Context, n manage.Named) (manage.Gateway, error) {
	for _, g := range f.gateways {
		if string(g.ID) == n.Name {
			return g, nil
		}
	}
	return manage.Gateway{}, errors.New("none")
}
func (f *fake) Link(_ context.Context, by audit.Actor, l manage.LinkFor) (manage.Link, error) {
	f.linked, f.by = l.Name, by
	if f.err != nil {
		return manage.Link{}, f.err
	}
	return f.link, nil
}

func (f *fake) Replay(_ context.Context, by audit.Actor, l manage.Letters) (manage.Moved, error) {
	f.did, f.by = append(f.did, "replay "+l.Name), by
	return manage.Moved{Count: 2, Left: 1}, f.err
}

func (f *fake) Rotate(_ context.Context, by audit.Actor, n manage.Named) (manage.Enrolled, error) {
	f.did, f.by = append(f.did, "rotate "+n.Name), by
	return manage.Enrolled{Env: map[string]string{"GATEWAY_RELAY_SECRET": "new-secret"}}, f.err
}

func (f *fake) Release(_ context.Context, by audit.Actor, s manage.Scope) (manage.Grant, error) {
	f.did, f.by = append(f.did, fmt.Sprint("release ", s.Name, " ", s.Platform, " ", s.Chat)), by
	return manage.Grant{}, f.err
}

// healthy is a connector with a bot and two gateways, of which one is away.
func healthy() *fake {
	return &fake{
		status: manage.Status{
			Version: "v1.2.3", Ready: true, Running: true, Counters: map[string]uint64{},
			Bots: []manage.BotStatus{{
				Platform: "telegram", ID: "1", Name: "our_bot", State: platforms.Connected,
				Since: noon.Add(-3 * time.Hour), LastEventAt: noon.Add(-2 * time.Minute),
				Answers: &manage.Waiting{Count: 3, OldestAt: noon.Add(-time.Hour), Why: "network: rate limited", Next: noon.Add(20 * time.Minute)},
			}},
			Instances: []manage.InstanceStatus{
				{ID: "home", Tenant: "home", State: manage.Connected},
				{ID: "küche", Tenant: "home", State: manage.Away, Backlog: 2, OldestAt: noon.Add(-time.Hour), Dead: 1},
			},
		},
		gateways: []manage.Gateway{
			{ID: "home", Instance: "home", Tenant: "home", State: manage.Connected, LastSeenAt: noon, Holds: &manage.Holdings{
				People:  []manage.Binding{{Platform: "telegram", User: "4242", Instance: "home", Person: "Ann Lee"}, {Platform: "telegram", User: "7", Instance: "home"}},
				Grants:  []manage.Grant{{Platform: "telegram", Chat: "-1001", Instance: "home"}},
				Rules:   manage.Rules{Principal: manage.Principal{Policy: relay.AnyOne}},
				WakeURL: "https://wake.example/" + canary, Poke: &wake.Poke{At: noon.Add(-time.Minute), Status: 503},
			}},
			{ID: "küche", Name: "Küche oben", Instance: "küche", Tenant: "home", State: manage.Away, Holds: &manage.Holdings{Rules: manage.Rules{Principal: manage.Principal{Policy: relay.OwnerOnly}}}},
			{ID: "old", Instance: "old", Tenant: "home", State: manage.Revoked},
		},
		link: manage.Link{
			Code: "KQ2-9F4-M7X", ExpiresAt: noon.Add(10 * time.Minute),
			DeepLinks: map[relay.PlatformID]string{"telegram": "https://t.me/our_bot?start=KQ29F4M7X", "evil": "javascript:alert(1)"},
			Bang:      []relay.PlatformID{"slack"},
		},
	}
}

func newSection(f *fake) *Section {
	return New(Options{
		Service: f, Now: func() time.Time { return noon }, Labels: map[relay.PlatformID]string{"telegram": "Telegram"},
		Machine: func() Machine {
			return Machine{Snapshots: true, SnapshotAt: noon.Add(-9 * time.Hour), DiskFree: 20 << 30, Database: 5 << 20, CertificateUntil: noon.Add(20 * 24 * time.Hour)}
		},
	})
}

// serve answers a request of who is logged in.
func serve(s *Section, r *http.Request) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	s.Mount(mux, func(h http.Handler) http.Handler { return h })
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func get(s *Section) string { return serve(s, httptest.NewRequest("GET", "/", nil)).Body.String() }

// textOf is what a page says, without its markup.
func textOf(page string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")), " ")
}

func TestThePage(t *testing.T) {
	page := get(newSection(healthy()))
	said := textOf(page)
	for _, want := range []string{
		"Everything works", "Telegram @our_bot", "✓ connected", "Since 3 hours ago", "Last event 2 minutes ago",
		"home ✓ connected", "People Telegram Ann Lee , Telegram 7", "Chats Telegram chat -1001", "Listens to everybody in its chats", "Last wake failed",
		"Küche oben ! never connected", "Last seen never", "Waiting 2 messages, the oldest from 1 hour ago", "Given up 1 dead letter", "hermes-connector buffer",
		"Waiting 3 answers, the oldest from 1 hour ago : penalty until", "Newest snapshot 9 hours ago", "20 GB free", "good for 20 days", "Version v1.2.3", "No message is remembered", "Search the last 30 days",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q:\n%s", want, said)
		}
	}
	for _, no := range []string{canary, "wake.example", ">old<", "Tenant", "Instance"} { // invariant 1
		if strings.Contains(page, no) {
			t.Errorf("the page holds %q", no)
		}
	}
}

// TestNodes: who leads since when and why, what the others lack, and why one cannot lead; or that this is not known.
func TestNodes(t *testing.T) {
	s := newSection(healthy())
	if said := textOf(get(s)); strings.Contains(said, "Nodes") {
		t.Error("there is no cluster")
	}
	seen, fault := cluster.Overview{
		Nodes: []cluster.NodeState{
			{Name: "pi1", Version: "2", Alive: true, AppendP99: 12345 * time.Microsecond, Places: map[string]uint64{"main": 100}},
			{Name: "pi2", Version: "2", Alive: true, Places: map[string]uint64{"main": 99}}, // leads next
			{Name: "pi3", Version: "1", Alive: true, Places: map[string]uint64{"main": 100}, Troubles: map[string]string{"main": "another key"}},
			{Name: "pi4", Version: "1", Until: noon.Add(-2 * time.Hour)},
			{Name: "pi1/restore", Version: "1", Until: noon.Add(-2 * time.Hour)},
		},
		Shards: []cluster.ShardState{{Name: "main", Leader: "pi1", Next: "pi2", Since: noon.Add(-time.Hour), Why: "the lease of pi4 was over", Top: 100}},
	}, error(nil)
	s.o.Cluster = func(context.Context) (cluster.Overview, error) { return seen, fault }
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{
			"pi1 leads, since 1 hour ago : the lease of pi4 was over", "pi1 ✓ leads PostgreSQL 99 of 100 commits within 12.3ms Version 2 pi2 ✓ stands by Its copy 1 commit behind Version 2",
			"pi3 ! cannot lead Version 1 another key pi4 ! gone Last seen 2 hours ago Version 1 This server",
		}},
		{func() { seen.Shards[0].Next = "pi3" }, []string{"pi2 ✓ stands by Version 2", "pi3 ! cannot lead Its copy has everything Version 1"}},
		{func() { seen.Shards[0].Leader = "" }, []string{"No node leads.", "pi1 ✓ stands by"}},
		{func() { fault = errors.New("it is away") }, []string{"PostgreSQL cannot be asked: it is away", "Everything works"}},
	} {
		step.change()
		s.forget()
		said := textOf(get(s))
		for _, want := range step.want {
			if !strings.Contains(said, want) {
				t.Errorf("the page does not say %q:\n%s", want, said)
			}
		}
	}
}

func TestTheSentence(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*manage.Status)
		want   string
	}{
		"nothing is wrong": {func(*manage.Status) {}, "Everything works"},
		"the worst finding, with its fix": {func(st *manage.Status) {
			st.Findings = []finding.Finding{
				{Code: "HC101", Severity: finding.Fault, What: "The token is dead.", Why: "Nobody is heard.", Fix: "Ask @BotFather for another.", About: "telegram"},
				{Code: "HC301", Severity: finding.Warning, What: "The disk is nearly full.", Fix: "hermes-connector backup x"},
			}
		}, "Telegram: The token is dead. Nobody is heard. Ask @BotFather for another. HC101 1 more finding The disk is nearly full. hermes-connector backup x HC301"},
		"a warning of the database": {func(st *manage.Status) {
			st.Findings = finding.DatabaseStopped.Alone("db", "no message is accepted: disk full", "make room")
		}, "Db: no message is accepted: disk full " + finding.DatabaseStopped.Why + " Make room HC314"},
		"what could not be looked at": {func(st *manage.Status) {
			st.Findings = finding.NotLookedAt.Alone("the disk", "it is not known", "look")
		}, "Everything works"},
		"a bot that was not looked at yet": {func(st *manage.Status) {
			st.Bots[0].State, st.Bots[0].Reason, st.Ready = platforms.Connecting, "Telegram cannot be reached", false
		}, "The bot of Telegram is not connected Telegram cannot be reached hermes-connector doctor"},
		"not ready, nobody knows why": {func(st *manage.Status) { st.Ready = false }, "The connector is not ready hermes-connector doctor"},
		"no gateway":                  {func(st *manage.Status) { st.Instances = nil }, "No gateway is enrolled yet hermes-connector enroll home"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.change(&f.status)
			_, page, _ := strings.Cut(get(newSection(f)), `<section id="summary"`)
			page, _, _ = strings.Cut(page, "</section>")
			if got := strings.ReplaceAll(textOf("<p"+page), " Copy", ""); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	f := healthy()
	for i := range 30 {
		f.decisions = append(f.decisions, gate.Decision{At: noon.Add(time.Duration(i) * time.Second), Platform: "telegram", User: relay.UserID(fmt.Sprint("user", i)), Reason: gate.NoBinding})
	}
	f.decisions[29].Says, f.decisions[29].Change = "Nobody is linked to 4242.", "hermes-connector link home --user telegram:4242"
	f.decisions[28].Hint = "no gateway fronts it"
	f.decisions[27].Person = "Ann Lee"
	page := get(newSection(f))
	for _, want := range []string{"Nobody is linked to 4242.", `data-copy="hermes-connector link home --user telegram:4242"`, "no_binding: no gateway fronts it", "user15", "from <bdi>Ann Lee</bdi>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, "user14") {
		t.Error("the sixteenth verdict is on the page")
	}
}

func TestNamesAreNoMarkup(t *testing.T) {
	evil := `"><script>alert(1)</script>&`
	f := healthy()
	f.status.Bots[0].Name, f.status.Bots[0].Reason = evil, evil
	f.status.Findings = []finding.Finding{{What: evil, Why: evil, Fix: "hermes-connector " + evil}}
	f.gateways[0].ID, f.status.Instances[0].ID, f.gateways[0].Instance = relay.GatewayID(evil), relay.InstanceID(evil), relay.InstanceID(evil)
	f.decisions = []gate.Decision{{Says: evil, Change: evil, User: relay.UserID(evil), Chat: "c"}}
	if page := get(newSection(f)); strings.Contains(page, "<script>") || strings.Contains(page, `">"`) {
		t.Errorf("a name is markup: %s", page)
	}
}

// TestABusyPageIsSmall (60 KB in all): with twenty gateways and findings, and the script and frame beside it.
func TestABusyPageIsSmall(t *testing.T) {
	f := healthy()
	for i := range 20 {
		g := f.gateways[0]
		g.ID = relay.GatewayID(fmt.Sprint("gateway-", i))
		f.gateways = append(f.gateways, g)
		f.status.Findings = append(f.status.Findings, finding.Finding{Code: "HC999", What: strings.Repeat("what ", 15), Why: strings.Repeat("why ", 15), Fix: "hermes-connector doctor"})
		f.decisions = append(f.decisions, gate.Decision{Platform: "telegram", Says: strings.Repeat("says ", 20), Change: "hermes-connector link home --user telegram:4242"})
	}
	s := newSection(f)
	for i := range 144 {
		f.status.Counters = map[string]uint64{"event_delivered": uint64(i * i * 7919), "message_sent": uint64(i * i * 104729), "ack": uint64(i), "ack_delay_milliseconds": uint64(i * i * 31)}
		s.o.Now = func() time.Time { return noon.Add(time.Duration(i) * 10 * time.Minute) }
		s.note(f.status)
	}
	frame := 10 << 10 // style sheet and picture, see cli/web/page
	if n := len(get(s)) + len(scriptText) + frame; n > 60_000 {
		t.Errorf("%d bytes, want at most 60,000", n)
	}
	if len(scriptText) > 8<<10 {
		t.Errorf("the script has %d bytes; the chat's needs room below 20 KB too", len(scriptText))
	}
}

func TestLink(t *testing.T) {
	post := func(f *fake, gateway string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/link", strings.NewReader(url.Values{"gateway": {gateway}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return serve(newSection(f), r)
	}
	f := healthy()
	w := post(f, "home")
	page := w.Body.String()
	if f.linked != "home" || f.by.Kind != audit.ActorWeb {
		t.Errorf("a code for %q by %+v, want home, web", f.linked, f.by)
	}
	for _, want := range []string{"/link KQ2-9F4-M7X", "!link KQ2-9F4-M7X", `href="https://t.me/our_bot?start=KQ29F4M7X"`, `<svg class="qr" role="img" aria-label="The link to Telegram as a QR code"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(page, "javascript:") {
		t.Error("an address that is none is linked")
	}
	if len(page) > 10<<10 {
		t.Errorf("a page with a code has %d bytes", len(page))
	}
	f.err = &manage.Error{Why: manage.NotFound, Message: "no gateway is called that"}
	if w := post(f, "nobody"); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "no gateway is called that") {
		t.Errorf("a refusal: %d %s", w.Code, w.Body)
	}
	f.err = errors.New("disk " + canary)
	if w := post(f, "home"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), canary) {
		t.Errorf("trouble: %d %s", w.Code, w.Body)
	}
}

// TestFixes: what one command fixes has a button, which asks; only the answer to that does it.
func TestFixes(t *testing.T) {
	for name, tc := range map[string]struct {
		fix     string // of a finding; empty: change is a decision's
		change  string
		button  string
		asks    string
		did     string
		answers string
	}{
		"a command among words": {
			fix: "put the new secret into its .env; `hermes-connector gateway rotate home` prints another", button: "Make a new secret",
			asks: "Make a new secret for home?", did: "rotate home", answers: "new-secret",
		},
		"a command and nothing else": {
			fix: "hermes-connector buffer replay 'Küche oben'", button: "Deliver them after all",
			asks: "Deliver to Küche oben the messages that were given up?", did: "replay küche", answers: "2 messages wait for Küche oben again",
		},
		"what would change a decision": {
			change: "hermes-connector chat release home telegram -1001", button: "Release it from home",
			asks: "Release chat -1001 from home?", did: "release home telegram -1001", answers: "Chat -1001 is released",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			if tc.fix != "" {
				f.status.Findings = []finding.Finding{{What: "x", Fix: tc.fix}}
			} else {
				f.decisions = []gate.Decision{{Says: "x", Change: tc.change}}
			}
			s := newSection(f)
			found := regexp.MustCompile(`href="(/fix[^"]*)">` + tc.button).FindStringSubmatch(get(s))
			if found == nil {
				t.Fatalf("no button %q", tc.button)
			}
			u, err := url.Parse(html.UnescapeString(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			asked := serve(s, httptest.NewRequest("GET", u.String(), nil))
			if !strings.Contains(asked.Body.String(), tc.asks) || len(f.did) > 0 {
				t.Errorf("it asks %s, and did %q", textOf(asked.Body.String()), f.did)
			}
			form := make(url.Values)
			for _, m := range regexp.MustCompile(`name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(asked.Body.String(), -1) {
				form.Set(m[1], html.UnescapeString(m[2]))
			}
			post := func() *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", "/fix", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				return serve(s, r)
			}
			w := post()
			if got := strings.Join(f.did, "; "); got != tc.did || f.by.Kind != audit.ActorWeb || !strings.Contains(w.Body.String(), tc.answers) {
				t.Errorf("it did %q by %+v and says %d %s", got, f.by, w.Code, textOf(w.Body.String()))
			}
			f.err = &manage.Error{Why: manage.NotFound, Message: "no gateway is called that"}
			if w := post(); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "no gateway is called that") {
				t.Errorf("a refusal: %d %s", w.Code, w.Body)
			}
			f.err = errors.New("disk " + canary)
			if w := post(); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), canary) || strings.Contains(w.Body.String(), "new-secret") {
				t.Errorf("trouble: %d %s", w.Code, w.Body)
			}
		})
	}
	f := healthy()
	f.status.Findings = []finding.Finding{{What: "x", Fix: "`hermes-connector gateway rotate old`, or `hermes-connector gateway rotate home2`, or hermes-connector gateway rotate home"}}
	s := newSection(f)
	if got := get(s); strings.Contains(got, "/fix?") {
		t.Error("a button for a gateway that is not there")
	}
	for _, query := range []string{"", "do=rotate", "do=rotate&gateway=old", "do=rotate&gateway=nobody", "do=revoke&gateway=home", "do=release&gateway=home&platform=telegram&chat=-9", "do=release&gateway=küche&platform=telegram&chat=-1001"} {
		r := httptest.NewRequest("POST", "/fix", strings.NewReader(query))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if w := serve(s, r); w.Code != http.StatusNotFound || len(f.did) > 0 {
			t.Errorf("%s: %d, did %q", query, w.Code, f.did)
		}
	}
}

func TestManyPagesAskOnceASecond(t *testing.T) { // invariant 3
	f := healthy()
	s := newSection(f)
	now := noon
	s.o.Now = func() time.Time { return now }
	for range 10 {
		get(s)
	}
	if f.asked != 1 {
		t.Errorf("10 pages in one second asked %d times, want 1", f.asked)
	}
	now = now.Add(time.Second)
	if get(s); f.asked != 2 {
		t.Errorf("a second later %d, want 2", f.asked)
	}
}

// browser notes what is written to it, by the pieces.
type browser struct {
	*httptest.ResponseRecorder
	mu  sync.Mutex // guards all
	all []string
}

func (b *browser) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, string(p))
	return len(p), nil
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := healthy()
		s := newSection(f)
		s.o.Now = time.Now
		s.o.Machine = func() Machine { return Machine{} }
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &browser{ResponseRecorder: httptest.NewRecorder()}
		sent := func() []string {
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.Clone(b.all)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.events(b, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
		}()
		got := sent()
		if len(got) != 1 || strings.Count(got[0], "data: summary\n") != 1 || strings.Count(got[0], "data: machine\n") != 1 {
			t.Fatalf("at first %d events: %.200q", len(got), got)
		}
		f.becomes(func(st *manage.Status) { st.Findings = []finding.Finding{{What: "line one\nline two"}} })
		time.Sleep(2 * time.Second)
		if got = sent(); len(got) != 2 || !strings.HasPrefix(got[1], "event: part\ndata: summary\n") || !strings.Contains(got[1], "Line one\ndata: line two") || strings.Contains(got[1], "data: bots") {
			t.Fatalf("after a change: %q, want the part that changed alone", got[1:])
		}
		time.Sleep(4 * time.Second)
		if got = sent(); len(got) != 4 || got[2] != page.StreamBeat || got[3] != page.StreamBeat {
			t.Errorf("nothing changed, and was sent: %q, want a sign of life every two seconds", got[2:])
		}
		f.fails(errors.New("disk"))
		time.Sleep(6 * time.Second)
		if got = sent(); len(got) != 4 {
			t.Errorf("the state cannot be read, and was sent: %q", got[4:])
		}
		cancel(login.ErrNotGood)
		<-ended
		if got = sent(); len(got) != 5 || got[4] != page.StreamEnd {
			t.Errorf("at the end of the session: %q", got[4:])
		}
	})
}

func TestRunReadsTheCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := healthy()
		s := newSection(f)
		s.o.Now = time.Now
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		f.becomes(func(st *manage.Status) {
			st.Counters = map[string]uint64{"event_delivered": 3, "message_sent": 2, "ack": 2, "ack_delay_milliseconds": 500}
		})
		time.Sleep(readEvery)
		synctest.Wait()
		lines := s.history.lines(time.Now())
		if got := lines[len(lines)-1]; got.In != 3 || got.Out != 2 || got.Waiting != 2 || got.Delay != 250*time.Millisecond {
			t.Errorf("the newest line is %+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAStateThatCannotBeRead(t *testing.T) {
	f := healthy()
	f.err = errors.New(canary)
	w := serve(newSection(f), httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), canary) || !strings.Contains(w.Body.String(), "doctor") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHowAHeadingBegins: what is found begins small where it stands behind a name, and large where it is a heading.
func TestHowAHeadingBegins(t *testing.T) {
	for want, f := range map[string]finding.Finding{
		"Gateway home: it has never connected": {About: "gateway home", What: "it has never connected"},
		"Telegram @our_bot: its token is dead": {About: "telegram:1", What: "its token is dead"},
		"Über nichts":                          {What: "über nichts"},
		"The clock is wrong":                   {What: "The clock is wrong"},
	} {
		if got := (view{Status: healthy().status, labels: map[relay.PlatformID]string{"telegram": "Telegram"}}).heading(f); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
