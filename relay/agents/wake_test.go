package agents

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// TestWoken: woken is said of what a gateway has acknowledged in time, and everything else has its reason.
func TestWoken(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		gateway string // acks, takes (and never acknowledges), or empty: none
		body    map[string]any
		asked   wake.Asked
		twice   bool // the same call before
		quiet   string
		woken   bool
		want    string // the warning
		left    int    // entries in the lane
	}{
		"acknowledged":                  {gateway: "acks", body: map[string]any{"context": "x", "wait_ms": 20000}, woken: true},
		"connected, not acknowledged":   {gateway: "takes", body: map[string]any{"context": "x", "wait_ms": 1}, want: "connected: not taken yet", left: 1},
		"connected, quiet":              {gateway: "takes", body: map[string]any{"context": "x", "wait_ms": 1}, quiet: "11:00-13:00", want: "waits: home is quiet until 2026-11-27T13:00:00Z", left: 1},
		"connected, without context":    {gateway: "acks", body: map[string]any{}, want: "connected: nothing to interrupt with"},
		"connected, without a body":     {gateway: "acks", want: "connected: nothing to interrupt with"},
		"asleep, poked":                 {body: map[string]any{"context": "x", "wait_ms": 0}, want: "asleep: poked, not here yet", left: 1},
		"asleep, without context":       {body: map[string]any{"agent_id": "home"}, want: "asleep: poked, not here yet"},
		"asleep, poked before":          {body: map[string]any{"context": "x", "wait_ms": 0}, asked: wake.Asked{Since: noon.Add(-20 * time.Second)}, want: "poked 20 s ago", left: 1},
		"asleep, no URL":                {body: map[string]any{"context": "x", "wait_ms": 0}, asked: wake.Asked{NoURL: true}, want: "no wake URL", left: 1},
		"asleep, quiet":                 {body: map[string]any{}, asked: wake.Asked{Rests: noon.Add(time.Hour)}, want: "quiet until 2026-11-27T13:00:00Z"},
		"the same once more":            {gateway: "acks", body: map[string]any{"context": "x", "wait_ms": 20000, "dispatch_id": "w"}, twice: true, want: "repeated: nothing was delivered once more"},
		"immediately, in as many words": {gateway: "acks", body: map[string]any{"context": "x", "when": "immediate", "wait_ms": 20000}, woken: true},
		"when it was":                   {gateway: "acks", body: map[string]any{"context": "x", "when": int64(1_700_000_000_000), "wait_ms": 20000}, woken: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home")
			p := r.add("cron", false, "home")
			r.sets(func() time.Time { return noon })
			r.asked = func(relay.InstanceID) wake.Asked { return tc.asked }
			if tc.quiet != "" {
				if err := r.db.UpdateInstance(t.Context(), nil, "home", func(i *store.Instance) (err error) {
					i.Quiet, err = relay.ParseQuietHours(tc.quiet, "UTC")
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.gateway != "" {
				g := r.dial("home", local.LoopbackID)
				if tc.gateway == "acks" {
					defer g.serve(func(relay.Event, func(string, bool)) {})()
				}
			}
			var body any = tc.body
			if tc.body == nil {
				body = nil
			}
			if tc.twice {
				p.call("POST", "/agents/wake/home", body).want(t, 200, "")
			}
			a := p.call("POST", "/agents/wake/home", body).want(t, 200, "")
			if a.body["woken"] != tc.woken || a.body["session_id"] != "main" || a.body["woken_at"] == 0.0 {
				t.Errorf("answer %s", a.raw)
			}
			if got, _ := a.body["warnings"].([]any); tc.want == "" && got != nil || tc.want != "" && fmt.Sprint(got) != "["+tc.want+"]" {
				t.Errorf("warnings %v, want %q", got, tc.want)
			}
			if got := r.texts("home"); len(got) != tc.left || tc.left == 1 && got[0] != "[wake from cron]\n\nx" {
				t.Errorf("waits: %q", got)
			}
		})
	}
}

// TestWokenByAnother: an entry that another call made does not make a wake true.
func TestWokenByAnother(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	body := map[string]any{"context": "x", "dispatch_id": "w", "wait_ms": 0}
	p.call("POST", "/agents/wake/home", body).want(t, 200, "")
	g := r.dial("home", local.LoopbackID)
	in, ok := g.read().(wire.Inbound)
	if !ok {
		t.Fatal("no message")
	}
	body["wait_ms"] = 20000
	done := make(chan answer)
	go func() { done <- p.call("POST", "/agents/wake/home", body) }()
	a := <-done
	g.ack(in.Buffer)
	if a.code != 200 || a.body["woken"] != false {
		t.Errorf("%d %s", a.code, a.raw)
	}
}

// TestWakeKey: it wakes one agent, carries nothing, and is good for nothing else.
func TestWakeKey(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"home", "kids"} {
		r.enroll(name)
	}
	p := r.add("cron", false, "home", "kids")
	var asked []relay.InstanceID
	r.asked = func(i relay.InstanceID) wake.Asked { asked = append(asked, i); return wake.Asked{} }
	anonymous := &program{r: r}
	anonymous.Token = "x"
	path := strings.TrimPrefix(p.Agents[1].WakeURL, "http://connector.example")
	a := anonymous.call("POST", path, map[string]any{"agent_id": "home", "context": "x"}).want(t, 200, "")
	if a.body["woken"] != false || fmt.Sprint(asked) != "[kids]" || len(r.texts("kids")) != 0 {
		t.Errorf("%s, asked for %v, %q", a.raw, asked, r.texts("kids"))
	}
	key := path[strings.LastIndexByte(path, '/')+1:]
	anonymous.Token = key
	anonymous.call("GET", "/agents", nil).want(t, 401, "unauthorized")
	anonymous.call("POST", "/agents/wakekey/"+p.Token, nil).want(t, 401, "unauthorized")
	anonymous.call("POST", "/agents/wakekey/"+key+"x", nil).want(t, 401, "unauthorized")
}

// TestScheduled: a wake that is wanted later comes then, once, over restarts, and can be looked at before.
func TestScheduled(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	body := map[string]any{"context": "get up", "dispatch_id": "w", "when": time.Now().Add(time.Hour).UnixMilli()}
	for range 2 {
		a := p.call("POST", "/agents/wake/home", body).want(t, 200, "")
		if a.body["woken"] != false || fmt.Sprint(a.body["warnings"]) != "[scheduled]" {
			t.Errorf("answer %s", a.raw)
		}
	}
	state := func() answer { return p.call("GET", "/agents/receipt/w?agent=home", nil).want(t, 200, "") }
	if a := state(); a.body["state"] != "scheduled" || a.body["scheduled_for"] != float64(body["when"].(int64)) {
		t.Errorf("receipt %s", a.raw)
	}
	r.restart()
	if got := r.texts("home"); len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	later := time.Now().Add(2 * time.Hour)
	for range 2 { // a second look delivers nothing more
		r.sets(func() time.Time { return later })
		if _, _, err := r.desk.deliverDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.texts("home"); len(got) != 1 || got[0] != "[wake from cron]\n\nget up" {
		t.Errorf("delivered %q", got)
	}
	if a := state(); a.body["state"] != "waiting" || a.body["scheduled_for"] != nil {
		t.Errorf("receipt %s", a.raw)
	}
	body["when"] = time.Now().Add(31 * 24 * time.Hour).UnixMilli()
	r.sets(time.Now)
	p.call("POST", "/agents/wake/home", body).want(t, 400, "30 days")
}

// TestScheduledAndDenied: what is scheduled for an agent that was taken away does not come.
func TestScheduledAndDenied(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	p.call("POST", "/agents/wake/home", map[string]any{"context": "x", "dispatch_id": "w", "when": time.Now().Add(time.Hour).UnixMilli()}).want(t, 200, "")
	if err := r.db.Unbind(t.Context(), nil, "home", relay.ProgramPlatform, "agents:cron@home"); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * time.Hour)
	r.sets(func() time.Time { return later })
	if _, ok, err := r.desk.deliverDue(t.Context()); err != nil || ok {
		t.Errorf("something is scheduled still: %t, %v", ok, err)
	}
	if got := r.texts("home"); len(got) != 0 {
		t.Errorf("delivered %q", got)
	}
}

// TestScheduledOfOneAgent: a wake without a word pokes the agent when its time comes, and leaves nothing; what is scheduled for an
// agent that the program is denied goes, and the rest stays.
func TestScheduledOfOneAgent(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"home", "kids", "work"} {
		r.enroll(name)
	}
	p, other := r.add("cron", false, "home", "kids", "work"), r.add("cron2", false, "kids")
	var mu sync.Mutex // the desk may look at the same time
	var asked []relay.InstanceID
	when := time.Now().Add(time.Hour).UnixMilli()
	for _, name := range []string{"home", "kids"} {
		p.call("POST", "/agents/wake/"+name, map[string]any{"context": "x", "dispatch_id": "w", "when": when}).want(t, 200, "")
	}
	p.call("POST", "/agents/wake/work", map[string]any{"dispatch_id": "w", "when": when}).want(t, 200, "")
	other.call("POST", "/agents/wake/kids", map[string]any{"context": "y", "dispatch_id": "w", "when": when}).want(t, 200, "")
	if _, err := r.svc.DenyCaller(t.Context(), audit.Actor{}, manage.CallerFor{Caller: "cron", Agents: []string{"kids"}}); err != nil {
		t.Fatal(err)
	}
	r.asked = func(i relay.InstanceID) wake.Asked {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, i)
		return wake.Asked{}
	}
	later := time.Now().Add(2 * time.Hour)
	r.sets(func() time.Time { return later })
	if _, ok, err := r.desk.deliverDue(t.Context()); err != nil || ok {
		t.Errorf("something is scheduled still: %t, %v", ok, err)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(asked)
	if asked = slices.Compact(asked); fmt.Sprint(asked) != "[home kids work]" {
		t.Errorf("asked to wake %v", asked)
	}
	if home, kids, work := r.texts("home"), r.texts("kids"), r.texts("work"); len(home) != 1 || fmt.Sprint(kids) != "[[wake from cron2]\n\ny]" || len(work) != 0 {
		t.Errorf("delivered %q, %q, %q", home, kids, work)
	}
	p.call("GET", "/agents/receipt/w?agent=work", nil).want(t, 404, "not found")
	p.call("GET", "/agents/receipt/w?agent=home", nil).want(t, 200, "")
}
