package hub

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func TestSaysStop(t *testing.T) {
	for text, want := range map[string]bool{
		"/stop": true, "/STOP": true, "/stop@bot": true, " /Stop@Bot please": true, "/stop\nnow": true,
		"": false, "stop": false, "/stopwatch": false, "/": false, "@stop": false, "do not /stop": false, "/st\u00f6p": false,
	} {
		if got := saysStop(relay.Event{Text: text}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if saysStop(relay.Event{Text: "/stop", Traits: relay.Traits{AuthorIsBot: true}}) {
		t.Error("a bot is no person")
	}
	if saysStop(relay.Event{Text: "/stop", Prompt: &relay.PromptResponse{}}) {
		t.Error("a press is no command")
	}
}

// frames reads the interrupts that come before the next inbound, which is acknowledged, as "key chat", and its text.
func (g *gateway) frames() (interrupts []string, text string) {
	g.t.Helper()
	for {
		switch f := g.read().(type) {
		case wire.InterruptInbound:
			interrupts = append(interrupts, string(f.Session)+" "+string(f.Chat))
		case wire.Inbound:
			g.send(wire.InboundAck{Buffer: f.Buffer})
			return interrupts, f.Event.Text
		default:
			g.t.Fatalf("frame = %T", f)
		}
	}
}

func (g *gateway) wantStop(want ...string) {
	g.t.Helper()
	got, text := g.frames()
	if !saysStop(relay.Event{Text: text}) || !slices.Equal(got, want) {
		g.t.Errorf("before %q: %q, want %q", text, got, want)
	}
}

func TestAPersonsStopInterruptsFirst(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	home := r.dial("home")
	r.say(local.Message{User: "ann", Text: "/stop"}) // nothing can run
	home.wantStop()
	// The /stop before counts as a delivery like any other.
	r.say(local.Message{User: "ann", Text: "/Stop@" + local.Handle + " now"})
	home.wantStop("agent:main:loopback:dm:@ann @ann")
	r.say(local.Message{User: "ann", Text: "stop"})
	if got, text := home.frames(); text != "stop" || got != nil {
		t.Errorf("before %q: %q", text, got)
	}
}

// TestAStopOvertakesTheBacklog: one message is not acknowledged, and others wait behind it.
func TestAStopOvertakesTheBacklog(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	home := r.dial("home")
	r.say(local.Message{User: "ann", Text: "work"})
	first, ok := home.read().(wire.Inbound)
	if !ok || first.Event.Text != "work" {
		t.Fatalf("frame = %+v", first)
	}
	texts := []string{"and this", "and that", "/stop"}
	for _, text := range texts {
		r.say(local.Message{User: "ann", Text: text})
	}
	if f, ok := home.read().(wire.InterruptInbound); !ok || f.Session != "agent:main:loopback:dm:@ann" {
		t.Fatalf("frame = %+v, want the interrupt before what waits", f)
	}
	home.send(wire.InboundAck{Buffer: first.Buffer})
	for _, want := range []string{"and this\nand that", "/stop"} {
		if got, text := home.frames(); text != want || got != nil {
			t.Errorf("%q after %q, want %q and no interrupt more", text, got, want)
		}
	}
}

// TestAStopInAGroup: one frame per key that a gateway may have, of those that something was delivered for.
func TestAStopInAGroup(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	r.claim("home", "hall")
	home, kids := r.dial("home"), r.dial("kids")
	const anns, everyones = "agent:main:loopback:group:hall:ann hall", "agent:main:loopback:group:hall hall"
	r.say(local.Message{User: "ann", Chat: "hall", Text: "work"})
	home.frames()
	r.say(local.Message{User: "ann", Chat: "hall", Text: "/stop"})
	home.wantStop(anns, everyones)
	r.say(local.Message{User: "ann", Chat: "hall", Thread: "t1", Text: "/stop"}) // nothing was said there
	home.wantStop()
	r.say(local.Message{User: "ann", Chat: "hall", Thread: "t1", Text: "/stop"})
	home.wantStop("agent:main:loopback:group:hall:t1 hall", "agent:main:loopback:group:hall:t1:ann hall")

	// A gateway that was given forwards of the network's own requests has keys of its own for them.
	src := relay.Source{Platform: local.LoopbackID, ChatType: relay.ChatGroup, ChatID: "hall", UserID: "ann"}
	r.hub.runs.remember(relay.DefaultTenant, sessionkey.Forwarded(src), run{"home", "hall", time.Now()})
	r.say(local.Message{User: "ann", Chat: "hall", Text: "/stop"})
	home.wantStop(anns, everyones, "agent:main:relay:channel:hall:ann hall", "agent:main:relay:channel:hall hall")
	r.say(local.Message{User: "ann", Chat: "hall", Thread: "t1", Text: "/stop"}) // another conversation
	home.wantStop("agent:main:loopback:group:hall:t1 hall", "agent:main:loopback:group:hall:t1:ann hall")

	// Bob has an instance of his own. What runs for home is not his instance's, and has another's key.
	r.say(local.Message{User: "bob", Text: "hello"})
	kids.frames()
	r.say(local.Message{User: "bob", Text: "/stop"})
	kids.wantStop("agent:main:loopback:dm:@bob @bob")
	r.say(local.Message{User: "ann", Chat: "hall", Text: "go on"})
	if got, text := home.frames(); text != "go on" || got != nil {
		t.Errorf("home got %q before %q", got, text)
	}
}

// TestAStopDoesNotReachWhoSleeps: after its going_idle a gateway gets no interrupt, and the message with the next hello.
func TestAStopDoesNotReachWhoSleeps(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	home := r.dial("home")
	r.say(local.Message{User: "ann", Text: "work"})
	home.frames()
	home.send(wire.GoingIdle{})
	if f := home.read(); f != (wire.GoingIdleAck{}) {
		t.Fatalf("frame = %T, want going_idle_ack", f)
	}
	r.say(local.Message{User: "ann", Text: "/stop"})
	if res := home.do(send("@ann", "still there")); res.Err != nil { // the next frame is its result
		t.Errorf("send = %+v", res)
	}
	r.dial("home").wantStop()
}

// TestAStopStaysInItsTenant: of two tenants that run the same key, each is told about its own, and who does not get the
// message is told nothing.
func TestAStopStaysInItsTenant(t *testing.T) {
	h, _ := tenants(t)
	var published []string
	defer h.bus.Subscribe(func(n bus.Note) {
		if n, ok := n.(bus.Interrupt); ok {
			published = append(published, fmt.Sprintf("%s %s", n.Instance, n.Session))
		}
	})()
	hall := relay.Source{ChatID: "hall", ChatType: relay.ChatGroup, UserID: "eve"}
	said(t, h, "e1", hall, false) // "kids" and "twin" get it, of two tenants
	h.interruptFor(judgement{event: stopIn(hall), verdicts: []verdict{{Instance: "kids", Tenant: tenantOf(t, h, "kids"), Reason: "delivered"}}})
	for _, p := range published {
		if p[:4] != "kids" {
			t.Errorf("%s was interrupted by what kids got", p)
		}
	}
	if len(published) == 0 {
		t.Error("kids was not interrupted")
	}
	published = nil
	h.interruptFor(judgement{event: stopIn(hall), verdicts: []verdict{
		{Instance: "kids", Tenant: "another", Reason: "delivered"}, {Instance: "twin", Tenant: tenantOf(t, h, "twin"), Reason: "no_binding"},
	}})
	if len(published) > 0 {
		t.Errorf("interrupted: %q, want nobody", published)
	}
}

func stopIn(src relay.Source) relay.Event {
	src.Platform = tell
	return relay.Event{ID: "stop", Bot: relay.Bot{Platform: tell, ID: "1"}, Type: relay.TypeText, Text: "/stop", Source: src}
}

func tenantOf(t *testing.T, h *Hub, id relay.InstanceID) relay.TenantID {
	t.Helper()
	all, err := h.db.Instances(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Tenant
}

func TestARunIsRecentForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs runs
		src := relay.Source{Platform: "discord", ChatType: relay.ChatThread, ChatID: "7", ThreadID: "7", UserID: "ann"}
		keys := sessionkey.Forms(src)
		rs.remember("t", keys, run{"home", "7", time.Now()})
		time.Sleep(runsFor)
		for _, k := range keys {
			if v, ok := rs.recent("t", "home", k, time.Now()); !ok || v.chat != "7" {
				t.Errorf("%s: %+v, %v", k, v, ok)
			}
		}
		for _, other := range []runKey{{"t", "kids", keys[0]}, {"u", "home", keys[0]}, {"t", "home", "agent:main:x"}} {
			if _, ok := rs.recent(other.tenant, other.instance, other.key, time.Now()); ok {
				t.Errorf("%+v runs nothing", other)
			}
		}
		time.Sleep(time.Nanosecond)
		if _, ok := rs.recent("t", "home", keys[0], time.Now()); ok {
			t.Error("after more than an hour it is recent still")
		}
		if _, ok := rs.find("t", "home", keys[1]); !ok {
			t.Error("a gateway's own interrupt has no such limit")
		}
		for n := range 3 * maxRuns {
			rs.remember("t", []relay.SessionKey{relay.SessionKey(fmt.Sprint(n))}, run{"home", "7", time.Now()})
		}
		if n := len(rs.young) + len(rs.old); n > 2*(maxRuns+6) {
			t.Errorf("%d runs are remembered", n)
		}
	})
}
