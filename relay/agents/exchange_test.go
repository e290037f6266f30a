package agents

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

func exchangeOf(dispatch, correlation, content string, more ...func(map[string]any)) map[string]any {
	return payloadOf(dispatch, content, append(more, meta("correlation_id", correlation))...)
}

// TestExchange: the answer is the first that the agent says is final; progress before it is kept beside it.
func TestExchange(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	g := r.dial("home", local.LoopbackID)
	defer g.serve(func(ev relay.Event, say func(string, bool)) {
		say("thinking", false)
		say("42", true)
		say("by the way", true)
	})()
	a := p.call("POST", "/agents/exchange/home", exchangeOf("d1", "c1", "6 times 7?", member("timeout_ms", 100_000))).want(t, 200, "")
	if a.body["content"] != "42" || a.body["correlation_id"] != "c1" || a.body["agent_id"] != "home" || a.body["warnings"] != nil {
		t.Errorf("answer %s", a.raw)
	}
	// A repetition gets the same, and delivers nothing.
	if again := p.call("POST", "/agents/exchange/home", exchangeOf("d1", "c1", "6 times 7?", member("timeout_ms", 100_000))); again.raw != a.raw {
		t.Errorf("again: %s, want %s", again.raw, a.raw)
	}
	p.call("POST", "/agents/exchange/home", exchangeOf("d1", "c1", "6 times 8?")).want(t, 400, "another payload")
	wait.Until(t, "all is kept", func() bool {
		return strings.Count(p.call("GET", "/agents/replies", nil).raw, `"correlation_id":"c1"`) == 3
	})
	p.call("POST", "/agents/exchange/home", payloadOf("d2", "x")).want(t, 400, "correlation_id")
	p.call("POST", "/agents/exchange/home", exchangeOf("d2", "c2", "x", member("timeout_ms", 0))).want(t, 400, "timeout_ms: want 1 to 300000")
}

// TestExchangeInTime: an agent that says nothing in time, and one that never says that it is done.
func TestExchangeInTime(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	for ms := 1; len(r.texts("home")) == 0; ms *= 2 { // until there is time to store it
		p.call("POST", "/agents/exchange/home", exchangeOf("d1", "c1", "x", member("timeout_ms", ms))).want(t, 504, "no reply")
	}
	g := r.dial("home", local.LoopbackID)
	ev := g.inbound()
	g.say(relay.Request{}, ev.Source.ChatID, "late", true) // it is kept
	if a := p.call("GET", "/agents/replies", nil); !strings.Contains(a.raw, `"content":"late"`) || !strings.Contains(a.raw, `"dispatch_id":"d1"`) {
		t.Errorf("replies %s", a.raw)
	}
	done := make(chan answer)
	go func() {
		done <- p.call("POST", "/agents/exchange/home", exchangeOf("d2", "c2", "y", member("timeout_ms", 3000)))
	}()
	ev = g.inbound()
	g.say(relay.Request{}, ev.Source.ChatID, "first", false)
	g.say(relay.Request{}, ev.Source.ChatID, "second", false)
	if a := <-done; a.code != 200 || a.body["content"] != "second" || !strings.Contains(a.raw, "did not say that it is done") {
		t.Errorf("%d %s", a.code, a.raw)
	}
}

// TestParallelExchanges: those without a session do not mix, and those in one session come one after the other.
func TestParallelExchanges(t *testing.T) {
	t.Parallel() // it waits
	for name, session := range map[string]string{"each a session of its own": "", "in one session": "desk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.enroll("home")
			p := r.add("cron", false, "home")
			g := r.dial("home", local.LoopbackID)
			var mu sync.Mutex
			chats := make(map[relay.ChatID]bool)
			defer g.serve(func(ev relay.Event, say func(string, bool)) {
				mu.Lock()
				chats[ev.Source.ChatID] = true
				mu.Unlock()
				_, asked, _ := strings.Cut(ev.Text, "\n\n")
				say("echo "+asked, true)
			})()
			var wg sync.WaitGroup
			for n := range 4 { // in one session, with a pause between them
				wg.Go(func() {
					body := exchangeOf(fmt.Sprint("d", n), fmt.Sprint("c", n), fmt.Sprint(n), member("timeout_ms", 100_000))
					if session != "" {
						body["session_id"] = session
					}
					a := p.call("POST", "/agents/exchange/home", body)
					if a.code != 200 || a.body["content"] != fmt.Sprint("echo ", n) {
						t.Errorf("%d: %d %s", n, a.code, a.raw)
					}
				})
			}
			wg.Wait()
			if want := map[bool]int{true: 4, false: 1}[session == ""]; len(chats) != want {
				t.Errorf("%d chats, want %d", len(chats), want)
			}
		})
	}
}

// TestAnExchangeWaitsForTheTurnBefore: what is handed over in a session while the agent is at something else there comes after
// that, and the answers do not mix.
func TestAnExchangeWaitsForTheTurnBefore(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	g := r.dial("home", local.LoopbackID)
	p.call("POST", "/agents/deliver/home@desk", payloadOf("d1", "it rains")).want(t, 200, "")
	ev := g.inbound()
	done := make(chan answer)
	go func() {
		done <- p.call("POST", "/agents/exchange/home@desk", exchangeOf("d2", "c2", "and now?", member("timeout_ms", 100_000)))
	}()
	wait.Until(t, "the question waits", func() bool { return strings.Contains(fmt.Sprint(r.texts("home")), "and now?") })
	// Were the question on its way, it would be here before the result.
	g.say(relay.Request{}, ev.Source.ChatID, "take an umbrella", true)
	if ev := g.inbound(); !strings.Contains(ev.Text, "and now?") {
		t.Errorf("came: %q", ev.Text)
	}
	g.say(relay.Request{}, ev.Source.ChatID, "the sun shines", true)
	if a := (<-done).want(t, 200, ""); a.body["content"] != "the sun shines" {
		t.Errorf("answer %s", a.raw)
	}
	if a := p.call("GET", "/agents/receipt/d1?agent=home", nil); !strings.Contains(a.raw, `"content":"take an umbrella"`) {
		t.Errorf("receipt %s", a.raw)
	}
}

// TestATurnOutlivesItsSession: an agent that is at something when the connection or the connector is lost is not given the next
// message of that session into it.
func TestATurnOutlivesItsSession(t *testing.T) {
	t.Parallel() // it waits
	for name, lose := range map[string]func(*rig){"the connection": func(*rig) {}, "the connector": (*rig).restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.enroll("home")
			p := r.add("cron", false, "home")
			g := r.dial("home", local.LoopbackID)
			p.call("POST", "/agents/deliver/home@desk", payloadOf("d1", "it rains")).want(t, 200, "")
			ev := g.inbound()
			wait.Until(t, "it is taken", func() bool {
				return p.call("GET", "/agents/receipt/d1?agent=home", nil).body["state"] == "taken"
			})
			_ = g.conn.CloseNow()
			lose(r)
			r.desk.rates = unlimited()
			g = r.dial("home", local.LoopbackID)
			done := make(chan answer)
			go func() {
				done <- p.call("POST", "/agents/exchange/home@desk", exchangeOf("d2", "c2", "and now?", member("timeout_ms", 100_000)))
			}()
			wait.Until(t, "the question waits", func() bool { return strings.Contains(fmt.Sprint(r.texts("home")), "and now?") })
			p.call("POST", "/agents/deliver/home@elsewhere", payloadOf("d3", "it snows")).want(t, 200, "")
			if ev := g.inbound(); !strings.Contains(ev.Text, "it snows") { // nothing waits elsewhere
				t.Errorf("came: %q", ev.Text)
			}
			g.say(relay.Request{}, ev.Source.ChatID, "take an umbrella", true)
			if ev := g.inbound(); !strings.Contains(ev.Text, "and now?") {
				t.Errorf("came: %q", ev.Text)
			}
			g.say(relay.Request{}, ev.Source.ChatID, "the sun shines", true)
			if a := (<-done).want(t, 200, ""); a.body["content"] != "the sun shines" {
				t.Errorf("answer %s", a.raw)
			}
			if a := p.call("GET", "/agents/receipt/d1?agent=home", nil); !strings.Contains(a.raw, `"content":"take an umbrella"`) {
				t.Errorf("receipt %s", a.raw)
			}
		})
	}
}

// TestOneAnswerToWhatTheGatewayJoined: a wake interrupts, and the gateway makes one turn of that and of what it was at. Its answer
// names the first, and counts for both.
func TestOneAnswerToWhatTheGatewayJoined(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	g := r.dial("home", local.LoopbackID)
	done := make(chan answer)
	go func() {
		done <- p.call("POST", "/agents/exchange/home@desk", exchangeOf("d1", "c1", "6 times 7?", member("timeout_ms", 100_000)))
	}()
	ev := g.inbound()
	woken := make(chan answer)
	go func() {
		woken <- p.call("POST", "/agents/wake/home@desk", map[string]any{"context": "be quick", "dispatch_id": "d2", "wait_ms": 20_000})
	}()
	g.inbound()
	if a := (<-woken).want(t, 200, ""); a.body["woken"] != true {
		t.Errorf("wake %s", a.raw)
	}
	reply := func(to relay.MessageID, text string, final bool) {
		g.send(wire.Outbound{Request: relay.Request{ID: "r", Action: relay.Send{Chat: ev.Source.ChatID, Content: text, ReplyTo: to, Meta: relay.Metadata{Notify: final}}}})
		if f := g.result(); f.Err != nil {
			t.Fatalf("said %q: %v", text, f.Err)
		}
	}
	reply("", "thinking", false)
	reply(ev.MessageID, "42", true)
	reply("", "by the way", true) // behind the final word: of the last
	reply(ev.MessageID, "no, 43", true)
	if a := (<-done).want(t, 200, ""); a.body["content"] != "42" {
		t.Errorf("answer %s", a.raw)
	}
	for dispatch, want := range map[string][]string{"d1": {"thinking", "42", "no, 43"}, "d2": {"thinking", "42", "by the way"}} {
		var got []string
		for _, s := range p.call("GET", "/agents/replies", nil).body["replies"].([]any) {
			if s := s.(map[string]any); s["dispatch_id"] == dispatch {
				got = append(got, s["content"].(string))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("said to %s (-want +got):\n%s", dispatch, diff)
		}
	}
}

// TestRepliesWait: who asks for replies before there are any gets the first.
func TestRepliesWait(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	p := r.add("cron", false, "home")
	g := r.dial("home", local.LoopbackID)
	done := make(chan answer)
	go func() { done <- p.call("GET", "/agents/replies?wait_ms=100000", nil) }()
	p.call("POST", "/agents/deliver/home", payloadOf("d1", "x")).want(t, 200, "")
	ev := g.inbound()
	g.say(relay.Request{}, ev.Source.ChatID, "here", true)
	if a := <-done; a.code != 200 || !strings.Contains(a.raw, `"content":"here"`) {
		t.Errorf("%d %s", a.code, a.raw)
	}
	for _, bad := range []string{"after=x", "after=-1", "wait_ms=x", "wait_ms=300001"} {
		p.call("GET", "/agents/replies?"+bad, nil).want(t, 400, "want")
	}
	// A cursor from before a backup was restored deletes nothing.
	if a := p.call("GET", "/agents/replies?after=999", nil).want(t, 200, ""); !strings.Contains(a.raw, `"content":"here"`) {
		t.Errorf("a cursor from elsewhere: %s", a.raw)
	}
}
