package hub

import (
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

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
	if !gate.IsStop(relay.Event{Text: text}) || !slices.Equal(got, want) {
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
	home.send(wire.InboundAck{Buffer: home.forwarded(r.request("ann", "hall", "f1", soon(), true))})
	r.say(local.Message{User: "ann", Chat: "hall", Text: "/stop"})
	home.wantStop(anns, everyones, "agent:main:relay:channel:hall:ann hall", "agent:main:relay:channel:hall hall")
	r.say(local.Message{User: "ann", Chat: "hall", Thread: "t1", Text: "/stop"}) // another conversation
	home.wantStop("agent:main:loopback:group:hall:t1 hall", "agent:main:loopback:group:hall:t1:ann hall")

	// Bob has an instance of his own. What runs for home is not that instance's, and has another's key.
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
