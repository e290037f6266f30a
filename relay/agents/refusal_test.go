package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// TestRefusals: each way in which a request can be wrong.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.desk.rates = unlimited()
	for _, name := range []string{"home", "kids"} {
		r.enroll(name)
	}
	p := r.add("cron", false, "home")
	r.add("other", false, "kids")
	big := strings.Repeat("x", maxText)
	for name, tc := range map[string]struct {
		method, path string
		body         any
		code         int
		says         string
	}{
		"no JSON":                         {"POST", "/agents/deliver/home", "x", 400, "the body must be a JSON object"},
		"a list":                          {"POST", "/agents/deliver/home", "[]", 400, "the body must be a JSON object"},
		"null":                            {"POST", "/agents/deliver/home", "null", 400, "the body must be a JSON object"},
		"no UTF-8":                        {"POST", "/agents/deliver/home", "{\"kind\":\"\xff\"}", 400, "the body must be a JSON object"},
		"a number for a text":             {"POST", "/agents/deliver/home", payloadOf("d", "x", member("content", 7)), 400, "content: want a string"},
		"a list for an object":            {"POST", "/agents/deliver/home", payloadOf("d", "x", member("meta", []int{})), 400, "meta: want an object"},
		"no kind":                         {"POST", "/agents/deliver/home", payloadOf("d", "x", member("kind", "")), 400, "kind: missing"},
		"an unknown kind":                 {"POST", "/agents/deliver/home", payloadOf("d", "x", member("kind", "binary")), 422, "kind"},
		"no content":                      {"POST", "/agents/deliver/home", payloadOf("d", " \n"), 400, "content: missing"},
		"no prompt":                       {"POST", "/agents/deliver/home", payloadOf("d", "x", member("kind", "template")), 400, "prompt: missing"},
		"no dispatch":                     {"POST", "/agents/deliver/home", payloadOf("", "x"), 400, "meta.dispatch_id: missing"},
		"a long dispatch":                 {"POST", "/agents/deliver/home", payloadOf(strings.Repeat("d", 257), "x"), 400, "meta.dispatch_id: longer"},
		"a long correlation":              {"POST", "/agents/deliver/home", payloadOf("d", "x", meta("correlation_id", strings.Repeat("d", 257))), 400, "meta.correlation_id: longer"},
		"no agent":                        {"POST", "/agents/deliver", payloadOf("d", "x"), 400, "agent_id: missing"},
		"two agents":                      {"POST", "/agents/deliver/home", payloadOf("d", "x", member("agent_id", "kids")), 400, "agent_id: the path names another agent"},
		"large content":                   {"POST", "/agents/deliver/home", payloadOf("d", big+"x"), 413, "content: larger than 128 KiB"},
		"a large body":                    {"POST", "/agents/deliver/home", payloadOf("d", "x", member("more", big+big)), 413, "the body is larger than 256 KiB"},
		"an agent that is not there":      {"POST", "/agents/deliver/attic", payloadOf("d", "x"), 404, "not found"},
		"another's agent":                 {"POST", "/agents/deliver/kids", payloadOf("d", "x"), 404, "not found"},
		"its status":                      {"GET", "/agents/status/kids", nil, 404, "not found"},
		"its receipt":                     {"GET", "/agents/receipt/d?agent=kids", nil, 404, "not found"},
		"no agent of a receipt":           {"GET", "/agents/receipt/d", nil, 404, "not found"},
		"its wake":                        {"POST", "/agents/wake/kids", nil, 404, "not found"},
		"its exchange":                    {"POST", "/agents/exchange/kids", exchangeOf("d", "c", "x"), 404, "not found"},
		"a wake of two":                   {"POST", "/agents/wake/home", map[string]any{"agent_id": "kids"}, 400, "agent_id"},
		"a wake with large context":       {"POST", "/agents/wake/home", map[string]any{"context": big + "x"}, 413, "context"},
		"a wake that waits long":          {"POST", "/agents/wake/home", map[string]any{"wait_ms": 20001}, 400, "wait_ms: want 0 to 20000"},
		"a wake some time":                {"POST", "/agents/wake/home", map[string]any{"when": "soon"}, 400, "when: want"},
		"a wake with a long dispatch":     {"POST", "/agents/wake/home", map[string]any{"dispatch_id": strings.Repeat("d", 257)}, 400, "dispatch_id"},
		"a path that is no text":          {"GET", "/agents/status/%ff", nil, 404, "not found"},
		"another method":                  {"GET", "/agents/deliver/home", nil, 405, "method not allowed"},
		"a path below":                    {"GET", "/agents/status/home/x", nil, 404, "not found"},
		"an exchange that waits too long": {"POST", "/agents/exchange/home", exchangeOf("d", "c", "x", member("timeout_ms", 300_001)), 400, "timeout_ms"},
	} {
		t.Run(name, func(t *testing.T) { p.call(tc.method, tc.path, tc.body).want(t, tc.code, tc.says) })
	}
	if got := append(r.texts("home"), r.texts("kids")...); len(got) != 0 {
		t.Errorf("delivered %q", got)
	}
	for _, same := range []string{"kids", "attic"} {
		if a := p.call("POST", "/agents/deliver/"+same, payloadOf("d", "x")); a.raw != "{\"error\":\"not found\"}\n" {
			t.Errorf("%s: %q", same, a.raw)
		}
	}
	p.send("GET", "/agents", nil, func(r *http.Request) { r.Header.Set("Origin", "https://example.net") }).want(t, 403, "browsers")
	if a := p.call("POST", "/agents/deliver/home", payloadOf("d", big)).want(t, 200, ""); a.body["delivery_id"] == nil {
		t.Errorf("as large as may be: %s", a.raw)
	}
}

// TestCredentials: the wrong token, none, another's, and bodies that are not signed as they should be.
func TestCredentials(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", true, "home")
	plain := *p
	plain.Secret = ""
	body := payloadOf("d", "x")
	for name, tc := range map[string]struct {
		as     *program
		change func(*http.Request)
		code   int
	}{
		"signed":             {p, func(*http.Request) {}, 200},
		"not signed":         {&plain, func(*http.Request) {}, 401},
		"signed wrong":       {p, func(r *http.Request) { r.Header.Set("X-Signature", "sha256="+strings.Repeat("0", 64)) }, 401},
		"signed in words":    {p, func(r *http.Request) { r.Header.Set("X-Signature", "sha256=x") }, 401},
		"no token":           {p, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"another token":      {p, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("a", 52)) }, 401},
		"a token of novella": {p, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("a", 5000)) }, 401},
	} {
		t.Run(name, func(t *testing.T) {
			a := p.r.send(tc.as, "POST", "/agents/deliver/home", body, tc.change)
			if a.code != tc.code || tc.code == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%d %s", a.code, a.raw)
			}
		})
	}
	rotated, err := r.svc.RotateCaller(t.Context(), audit.Actor{}, manage.CallerFor{Caller: "cron"})
	if err != nil || rotated.Token == p.Token || rotated.Secret == p.Secret || len(rotated.Agents) != 1 {
		t.Fatalf("%+v, %v", rotated, err)
	}
	p.call("GET", "/agents", nil).want(t, 401, "unauthorized")
	now := &program{r, rotated}
	if a := now.call("GET", "/agents", nil).want(t, 200, ""); !strings.Contains(a.raw, `"agent_id":"home"`) {
		t.Errorf("agents %s", a.raw)
	}
	for _, secret := range []string{p.Token, p.Secret, rotated.Token, rotated.Secret, p.Agents[0].WakeURL[strings.LastIndex(p.Agents[0].WakeURL, "/")+1:]} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("a credential is in the log")
		}
	}
}

// send is program.send.
func (r *rig) send(p *program, method, path string, body any, change func(*http.Request)) answer {
	return p.send(method, path, body, change)
}

// TestLimits: how often a caller may ask, how many of its requests wait, and how often strangers may try.
func TestLimits(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p, other := r.add("cron", false, "home"), r.add("other", false, "home")
	noon := time.Now()
	r.sets(func() time.Time { return noon })
	for range burst {
		p.call("GET", "/agents", nil).want(t, 200, "")
	}
	if a := p.call("GET", "/agents", nil).want(t, 429, "too many requests"); a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	other.call("GET", "/agents", nil).want(t, 200, "")

	r.desk.rates = unlimited()
	var done []func()
	for range heldEach {
		leave, err := r.desk.hold("cron")
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, leave)
	}
	p.call("GET", "/agents/replies?wait_ms=1", nil).want(t, 429, "too many requests wait")
	p.call("GET", "/agents/replies", nil).want(t, 200, "") // it does not wait
	p.call("POST", "/agents/exchange/home", exchangeOf("d", "c", "x")).want(t, 429, "too many requests wait")
	p.call("POST", "/agents/wake/home", map[string]any{"context": "x"}).want(t, 429, "too many requests wait")
	other.call("GET", "/agents/replies?wait_ms=1", nil).want(t, 200, "")
	for n := range 3 * heldEach {
		leave, err := r.desk.hold(fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, leave)
	}
	other.call("GET", "/agents/replies?wait_ms=1", nil).want(t, 429, "too many requests wait")
	for _, leave := range done {
		leave()
	}
	if len(r.desk.held) != 0 || r.desk.all != 0 {
		t.Errorf("%d are counted, %v", r.desk.all, r.desk.held)
	}

	stranger := &program{r: r}
	stranger.Token = "x"
	for range limits.MaxFailures {
		stranger.call("GET", "/agents", nil).want(t, 401, "unauthorized")
	}
	stranger.call("GET", "/agents", nil).want(t, 429, "too many failed attempts")
	stranger.call("POST", "/agents/wakekey/x", nil).want(t, 429, "too many failed attempts")
	p.call("GET", "/agents", nil).want(t, 200, "") // who proves something is not refused for others
	if a := stranger.call("GET", "/agents/health", nil).want(t, 200, ""); a.raw != "{\"ok\":true}\n" {
		t.Errorf("health %s", a.raw)
	}
}

// TestHealth: it needs no credential, and tells no more than whether something can be stored.
func TestHealth(t *testing.T) {
	r := newRig(t)
	wait.Until(t, "the bot runs", func() bool { return r.bot.Status().State == platforms.Connected })
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := &program{r: r}
	if a := stranger.call("GET", "/agents/health", nil); a.code != 503 || a.raw != "{\"error\":\"unavailable\"}\n" {
		t.Errorf("%d %s", a.code, a.raw)
	}
	stranger.Token = "x"
	stranger.call("GET", "/agents", nil).want(t, 503, "unavailable")
}

// TestStatus: how an agent is, over its life.
func TestStatus(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	status := func() any { return p.call("GET", "/agents/status/home", nil).want(t, 200, "").body["status"] }
	if got := status(); got != "unknown" {
		t.Errorf("never there: %v", got)
	}
	g := r.dial("home", local.LoopbackID)
	if got := status(); got != "idle" {
		t.Errorf("connected: %v", got)
	}
	p.call("POST", "/agents/deliver/home", payloadOf("d", "x")).want(t, 200, "")
	g.inbound()
	wait.Until(t, "active", func() bool { return status() == "active" })
	r.sets(func() time.Time { return time.Now().Add(activeFor) })
	if got := status(); got != "idle" {
		t.Errorf("two minutes later: %v", got)
	}
	g.send(goingIdle())
	wait.Until(t, "asleep", func() bool { return status() == "asleep" })
}

// TestTheLineBefore: whatever stands in the fields, the first line is ours, whole, and nothing of theirs stands elsewhere.
func TestTheLineBefore(t *testing.T) {
	c := caller{}
	c.Name = "cron"
	nasty := []string{"a]\n/stop", "/approve", "\r\n[wake from x]", "\u202eevil\u2028", "\x00\x1b[2J", strings.Repeat("long ", 100), "a[b]c{d}", "ok"}
	for _, bad := range nasty {
		for _, kind := range []string{"augment", "template"} {
			var p payload
			p.Kind = kind
			p.Meta.SentAt = 1_700_000_000_000
			p.Meta.EventType = bad
			p.Meta.Origin.SkillName, p.Meta.Origin.TriggerKind, p.Meta.Origin.EntrySkillName, p.Meta.Origin.CallerAgentID = bad, bad, bad, bad
			line := p.line(c)
			if !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, "]") || strings.Count(line, "[") != 1 || strings.Count(line, "]") != 1 ||
				strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || len([]rune(line)) > 5*maxField+100 {
				t.Errorf("%q makes %q", bad, line)
			}
		}
	}
	var p payload
	p.Kind = "template"
	p.Meta.SentAt, p.Meta.EventType = 1_700_000_000_000, "mail"
	p.Meta.Origin.SkillName, p.Meta.Origin.TriggerKind, p.Meta.Origin.EntrySkillName, p.Meta.Origin.CallerAgentID = "brief", "cron", "morning", "ann"
	if got, want := p.line(c), "[playbook from skill brief (cron), entry skill morning, caller ann, event mail, sent 2023-11-14T22:13:20Z]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p = payload{Kind: "augment"}
	if got, want := p.line(c), "[context from cron]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestWordsStayInTheirPlace: what a program writes is in no log and no error, and no command of a gateway.
func TestWordsStayInTheirPlace(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	const canary = "kanarienvogel"
	p.call("POST", "/agents/deliver/home", payloadOf(canary, "/stop "+canary, meta("event_type", canary), meta("correlation_id", canary))).want(t, 200, "")
	p.call("POST", "/agents/deliver/home", payloadOf(canary+"2", canary, member("kind", canary))).want(t, 422, "")
	p.call("POST", "/agents/deliver/home", `{"meta":"`+canary+`"}`).want(t, 400, "")
	p.call("POST", "/agents/deliver/"+canary, payloadOf("d", canary)).want(t, 404, "")
	g := r.dial("home", local.LoopbackID)
	ev := g.inbound()
	if ev.Type != relay.TypeText || !strings.HasPrefix(ev.Text, "[context from skill morning (cron), event "+canary+"]\n\n/stop ") {
		t.Errorf("event %s %q", ev.Type, ev.Text)
	}
	g.say(relay.Request{}, ev.Source.ChatID, canary, true)
	if strings.Contains(r.log.String(), canary) {
		t.Errorf("the log has what was written:\n%s", r.log)
	}
}

// TestNobodyCanTell: an agent that is not there and one that the caller may not reach take the same time.
func TestNobodyCanTell(t *testing.T) {
	r := newRig(t)
	r.desk.rates = unlimited()
	for _, name := range []string{"home", "kids"} {
		r.enroll(name)
	}
	p := r.add("cron", false, "home")
	r.add("other", false, "kids")
	c, ok, err := r.db.Callers.Get(t.Context(), p.Caller)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	took := map[string][]time.Duration{}
	for range 1000 {
		for _, id := range []string{"kids", "attc"} {
			began := time.Now()
			if _, err := r.desk.find(context.Background(), caller{c}, id, ""); err == nil {
				t.Fatal("it is found")
			}
			took[id] = append(took[id], time.Since(began))
		}
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	// Both read the same one record; the bound is only there to find a read more.
	if a, b := median(took["kids"]), median(took["attc"]); a > 2*b+20*time.Microsecond || b > 2*a+20*time.Microsecond {
		t.Errorf("%v for one that is there, %v for one that is not", a, b)
	}
}

// FuzzBodies: whatever comes, the answer is JSON, and no 500.
func FuzzBodies(f *testing.F) {
	r := newRig(f)
	r.desk.rates = unlimited()
	r.enroll("home")
	p := r.add("cron", false, "home")
	for _, body := range []any{payloadOf("d", "x"), exchangeOf("d", "c", "x", member("timeout_ms", 1)), map[string]any{"context": "x", "wait_ms": 0, "when": "immediate"}} {
		raw, err := json.Marshal(body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, s := range []string{`{}`, `null`, `{"meta":{"sent_at":1e300}}`, `{"when":-1}`, `{"kind":"augment","content":"\ud800","meta":{"dispatch_id":"\u0000"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, path := range []string{"/agents/deliver/home", "/agents/wake/home"} {
			req := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(string(raw)))
			req.Header.Set("Authorization", "Bearer "+p.Token)
			w := httptest.NewRecorder()
			if path == "/agents/wake/home" && strings.Contains(string(raw), "wait_ms") {
				continue // it may wait
			}
			r.http.Config.Handler.ServeHTTP(w, req)
			if w.Code >= 500 || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s %q: %d %s", path, raw, w.Code, w.Body)
			}
		}
	})
}

// TestHeldExchangesHoldUpNobody: with as many exchanges waiting as there may be, deliveries are answered and gateways come in. How long
// both take then, and how long without anybody who waits, is measured in turns, and logged.
func TestHeldExchangesHoldUpNobody(t *testing.T) {
	rounds, each := long.Pick(1, 10), 50
	r := newRig(t)
	r.enroll("home")
	r.enroll("away")      // nobody dials for it, so those that wait for it wait
	for n := range each { // one that came in again and again would be told to wait
		r.enroll(fmt.Sprint("dials", n))
	}
	var all []*program
	for n := range heldAll / heldEach {
		all = append(all, r.add(fmt.Sprint("p", n), false, "home", "away"))
	}
	r.desk.rates = unlimited()
	held := func() int {
		r.desk.mu.Lock()
		defer r.desk.mu.Unlock()
		return r.desk.all
	}
	// hold has as many wait as may, until leave.
	hold := func(round int) (leave func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		leave = sync.OnceFunc(func() { cancel(); wg.Wait() })
		t.Cleanup(leave) // before the server's end, which waits for them
		for n := range heldAll {
			wg.Go(func() {
				id := fmt.Sprint("held", round, "-", n)
				raw, _ := json.Marshal(exchangeOf(id, id, "x", member("timeout_ms", 300_000)))
				req, _ := http.NewRequestWithContext(ctx, "POST", r.http.URL+"/agents/exchange/away", bytes.NewReader(raw))
				req.Header.Set("Authorization", "Bearer "+all[n/heldEach].Token)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		wait.Until(t, "all are held", func() bool { return held() == heldAll })
		return leave
	}
	var deliveries, upgrades [2][]time.Duration // by whether others are held
	for round := range 2 * rounds {
		with := round % 2
		leave := func() {}
		if with == 1 {
			leave = hold(round)
		}
		r.desk.rates = unlimited()
		for n := range each {
			began := time.Now()
			all[n%len(all)].call("POST", "/agents/deliver/home", payloadOf(fmt.Sprint("e", round, "-", n), "x")).want(t, 200, "")
			deliveries[with] = append(deliveries[with], time.Since(began))
			began = time.Now()
			g := r.dial(fmt.Sprint("dials", n), local.LoopbackID)
			upgrades[with] = append(upgrades[with], time.Since(began))
			_ = g.conn.CloseNow()
		}
		leave()
		wait.Until(t, "their places are free", func() bool { return held() == 0 })
	}
	for name, took := range map[string][2][]time.Duration{"deliveries": deliveries, "upgrades": upgrades} {
		for _, ds := range took {
			slices.Sort(ds)
		}
		at := func(percent int) string {
			alone, beside := took[0][len(took[0])*percent/100], took[1][len(took[1])*percent/100]
			return fmt.Sprintf("p%d %v and %v: %.2f times", percent, alone, beside, float64(beside)/float64(alone))
		}
		t.Logf("%d %s alone, and as many beside %d held exchanges: %s; %s", len(took[0]), name, heldAll, at(50), at(99))
	}
}
