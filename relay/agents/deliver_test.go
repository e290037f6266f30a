package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/wait"

	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// TestDeliver: what a program hands over reaches an agent whose gateway fronts another network alone, however its frames name
// the bot, and what the agent says comes back.
func TestDeliver(t *testing.T) {
	for name, names := range map[string]relay.Request{
		"frames carry no platform":            {},
		"frames carry the event's platform":   {Platform: relay.ProgramPlatform},
		"frames carry the platform and a bot": {Platform: relay.ProgramPlatform, Bot: relay.ProgramBotID},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home")
			p := r.add("cron", false, "home")
			g := r.dial("home", local.LoopbackID)
			a := p.call("POST", "/agents/deliver/home", payloadOf("d1", "Good morning.\nIt rains.")).want(t, 200, "")
			if a.body["session_id"] != "main" || a.body["delivery_skipped"] != nil || a.body["warnings"] != nil || a.body["delivery_id"] == "" {
				t.Errorf("receipt %s", a.raw)
			}
			ev := g.inbound()
			if want := "[context from skill morning (cron)]\n\nGood morning.\nIt rains."; ev.Text != want {
				t.Errorf("text %q, want %q", ev.Text, want)
			}
			if ev.Source.Platform != "webhook" || ev.Source.ChatID != "agents:cron@home/main" || ev.Source.UserID != "agents:cron@home" ||
				ev.Source.ChatType != relay.ChatDM || ev.Source.UserName != "cron" || ev.MessageID != relay.MessageID(a.body["delivery_id"].(string)) {
				t.Errorf("event %+v", ev)
			}
			if res := g.say(names, ev.Source.ChatID, "Take an umbrella.", true); res.MessageID == "" {
				t.Errorf("result %+v", res)
			}
			got := p.call("GET", "/agents/replies", nil).want(t, 200, "")
			var out said
			if err := json.Unmarshal([]byte(got.raw), &out); err != nil || len(out.Replies) != 1 {
				t.Fatalf("replies %s, %v", got.raw, err)
			}
			one := out.Replies[0]
			if one.Content != "Take an umbrella." || one.DispatchID != "d1" || one.AgentID != "home" || one.SessionID != "main" || one.SentAt == 0 || !one.Final {
				t.Errorf("reply %+v", one)
			}
			if a := p.call("GET", "/agents/receipt/d1?agent=home", nil).want(t, 200, ""); a.body["state"] != "taken" || a.body["reply"] == nil {
				t.Errorf("receipt %s", a.raw)
			}
			if a := p.call("GET", "/agents/replies?after="+out.Cursor, nil).want(t, 200, ""); !strings.Contains(a.raw, `"replies":[]`) {
				t.Errorf("behind the cursor: %s", a.raw)
			}
			if a := p.call("GET", "/agents/replies", nil).want(t, 200, ""); !strings.Contains(a.raw, `"replies":[]`) {
				t.Errorf("what was read is there: %s", a.raw)
			}
		})
	}
}

// TestTheHelloIsAnsweredAsBefore: a hello with the network that has every bot gets the descriptor that it would get without
// programs.
func TestTheHelloIsAnsweredAsBefore(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	r.dial("home", relay.RelayPlatform) // it reads the descriptor
	for _, p := range r.hub.Bots() {
		if !p.ID().IsProgram() && p.ID().Platform != local.LoopbackID {
			t.Errorf("another bot: %s", p.ID())
		}
	}
}

// TestReceipts: an agent that sleeps gets it later, and the receipt says so at every stage.
func TestReceipts(t *testing.T) {
	r := newRig(t)
	r.desk.rates = unlimited()
	r.enroll("home")
	p := r.add("cron", false, "home")
	first := p.call("POST", "/agents/deliver", payloadOf("d1", "one", member("agent_id", "home"))).want(t, 200, "")
	if first.body["delivery_skipped"] != true || fmt.Sprint(first.body["warnings"]) != "[waits: home is asleep]" {
		t.Errorf("asleep: %s", first.raw)
	}
	state := func() any {
		return p.call("GET", "/agents/receipt/d1?agent=home", nil).want(t, 200, "").body["state"]
	}
	if got := state(); got != "waiting" {
		t.Errorf("state %v", got)
	}
	r.restart()
	r.desk.rates = unlimited()
	if again := p.call("POST", "/agents/deliver", payloadOf("d1", "one", member("agent_id", "home"))); again.raw != first.raw {
		t.Errorf("again, after a restart: %s, want %s", again.raw, first.raw)
	}
	if a := p.call("POST", "/agents/deliver/home", payloadOf("d1", "another")).want(t, 200, ""); a.body["delivery_skipped"] != true ||
		!strings.Contains(a.raw, warnOther) || a.body["delivery_id"] != first.body["delivery_id"] {
		t.Errorf("another payload: %s", a.raw)
	}
	if got := r.texts("home"); len(got) != 1 {
		t.Fatalf("buffer %q", got)
	}
	g := r.dial("home", local.LoopbackID)
	g.inbound()
	wait.Until(t, "taken", func() bool { return state() == "taken" })

	// What the operator drops is dead, and what they replay waits again.
	_ = g.conn.CloseNow()
	wait.Until(t, "the session's end", func() bool { return !r.hub.Awake("home") })
	p.call("POST", "/agents/deliver/home", payloadOf("d2", "two")).want(t, 200, "")
	es, err := r.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{})
	if err != nil || len(es) != 1 {
		t.Fatalf("%d entries, %v", len(es), err)
	}
	if err := r.db.Lanes.Bury(t.Context(), "home", es[0].Buffer, store.DeadPoison); err != nil {
		t.Fatal(err)
	}
	second := func() any {
		return p.call("GET", "/agents/receipt/d2?agent=home", nil).want(t, 200, "").body["state"]
	}
	if got := second(); got != "dead" {
		t.Errorf("buried: %v", got)
	}
	if _, err := r.db.Lanes.Replay(t.Context(), nil, "home"); err != nil {
		t.Fatal(err)
	}
	if got := second(); got != "waiting" {
		t.Errorf("replayed: %v", got)
	}
	p.call("GET", "/agents/receipt/d3?agent=home", nil).want(t, 404, "not found")
}

// TestManyCopies: of one dispatch that comes many times at once there is one entry, and one receipt for all.
func TestManyCopies(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	r.desk.rates = unlimited()
	var wg sync.WaitGroup
	answers := make([]answer, 64)
	for n := range answers {
		wg.Go(func() { answers[n] = p.call("POST", "/agents/deliver/home", payloadOf("d1", "one")) })
	}
	wg.Wait()
	for _, a := range answers {
		if a.code != 200 || a.raw != answers[0].raw {
			t.Errorf("%d %s, want %s", a.code, a.raw, answers[0].raw)
		}
	}
	if got := r.texts("home"); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// TestNoJoin: deliveries that wait together come one by one.
func TestNoJoin(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	for n := range 3 {
		p.call("POST", "/agents/deliver/home", payloadOf(fmt.Sprint(n), fmt.Sprint("text ", n))).want(t, 200, "")
	}
	g := r.dial("home", local.LoopbackID)
	for n := range 3 {
		ev := g.inbound()
		if !strings.HasSuffix(ev.Text, fmt.Sprint("\n\ntext ", n)) {
			t.Errorf("text %d: %q", n, ev.Text)
		}
		g.say(relay.Request{}, ev.Source.ChatID, "ok", true) // the turn is over
	}
}

// TestSessions: an id with a session, a session in the body, which wins, and agents with an "@" in their names.
func TestSessions(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"home", "ann@work"} {
		r.enroll(name)
	}
	p := r.add("cron", false, "home", "ann@work")
	for n, tc := range []struct {
		id, session string
		code        int
		want        string
	}{
		{"home", "", 200, "main"},
		{"home@desk", "", 200, "desk"},
		{"home@desk", "lap", 200, "lap"},
		{"home", "lap", 200, "lap"},
		{"ann@work", "", 200, "main"},
		{"ann@work@desk", "", 200, "desk"},
		{"ann", "", 404, ""},
		{"home@", "", 404, ""},
		{"home@a/b", "", 404, ""},
		{"home", "a/b", 400, ""},
		{"home", strings.Repeat("x", 65), 400, ""},
		{strings.Repeat("x", 500), "", 404, ""},
	} {
		body := payloadOf(fmt.Sprint(n), "x", member("agent_id", tc.id))
		if tc.session != "" {
			body["session_id"] = tc.session
		}
		a := p.call("POST", "/agents/deliver", body).want(t, tc.code, "")
		if got, _ := a.body["session_id"].(string); got != tc.want {
			t.Errorf("%s, %q: session %q, want %q", tc.id, tc.session, got, tc.want)
		}
	}
}

// TestDenied: a program that lost an agent, or is gone, reaches it no more, what waits is dead, and the agent cannot write to it.
func TestDenied(t *testing.T) {
	for name, take := range map[string]func(r *rig) error{
		"denied": func(r *rig) error {
			_, err := r.svc.DenyCaller(t.Context(), audit.Actor{}, manage.CallerFor{Caller: "cron", Agents: []string{"home"}})
			return err
		},
		"removed": func(r *rig) error {
			_, err := r.svc.RemoveCaller(t.Context(), audit.Actor{}, manage.CallerFor{Caller: "cron"})
			return err
		},
		"unlinked": func(r *rig) error {
			_, err := r.svc.Unbind(t.Context(), audit.Actor{}, manage.Bind{Name: "home", Platform: "webhook", User: "agents:cron@home"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home")
			p := r.add("cron", false, "home")
			p.call("POST", "/agents/deliver/home", payloadOf("d1", "one")).want(t, 200, "")
			p.call("POST", "/agents/wake/home", map[string]any{"context": "later", "when": int64(4_000_000_000_000), "dispatch_id": "w"}).want(t, 400, "30 days")
			if err := take(r); err != nil {
				t.Fatal(err)
			}
			if got := r.texts("home"); len(got) != 0 {
				t.Errorf("waits: %q", got)
			}
			code, says := 404, "not found"
			if name == "removed" {
				code, says = 401, "unauthorized"
			}
			p.call("POST", "/agents/deliver/home", payloadOf("d2", "two")).want(t, code, says)
			g := r.dial("home", local.LoopbackID)
			g.send(sendTo("agents:cron@home/main"))
			if f := g.result(); f.Err == nil || f.Err.Code != relay.CodeEgressDeclined {
				t.Errorf("the agent writes: %+v", f)
			}
		})
	}
}
