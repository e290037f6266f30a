package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestAForwardIsADeliveryLikeAnother: it waits in the lane with events, in their order, is pushed and
// acknowledged as they are, becomes a dead letter and is replayed.
func TestAForwardIsADeliveryLikeAnother(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	bot := r.bot
	forward := relay.Forward{
		Event:  relay.Event{ID: "hook:1", Bot: bot, Source: relay.Source{Platform: bot.Platform, ChatID: "c1", UserID: "ann"}},
		Method: "POST", Path: "/hooks/1", Headers: [][2]string{{"Content-Type", "text/plain"}}, Body: []byte("coo\n\x00"),
	}
	event := relay.Event{ID: "m:1", Bot: bot, MessageID: "1", Text: "behind it"}
	a := store.Accept{Bot: bot}
	for _, d := range []relay.Delivery{forward, event, forward} {
		frame, fits := wire.Pack(d)
		if !fits {
			t.Fatalf("%T does not fit", d)
		}
		a.Items = append(a.Items, store.AcceptItem{Delivery: d, Frame: frame, To: []store.Recipient{{Instance: "home"}}})
	}
	out, err := r.db.Accept(t.Context(), a)
	if err != nil || !out.Items[2].Duplicate {
		t.Fatalf("%+v, %v; want the second forward known", out, err)
	}
	want := wire.PassthroughForward{Buffer: out.Items[0].Buffers[0].String(), Forward: forward}
	want.Forward.Event = relay.Event{Bot: bot} // all of it that travels
	for range 5 {                              // it kills its gateway, as often as one may
		g := r.dial("home")
		if diff := cmp.Diff(wire.Frame(want), g.read()); diff != "" {
			t.Fatalf("first came (-want +got):\n%s", diff)
		}
		_ = g.conn.CloseNow()
		eventually(t, "the end of the session", func() bool { return !r.hub.Connected("home") })
	}
	dead, err := r.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{Dead: true})
	if err != nil || len(dead) != 1 || dead[0].About.ID != "hook:1" || dead[0].About.User != "ann" || dead[0].Reason != store.DeadDeaths {
		t.Fatalf("dead letters %+v, %v", dead, err)
	}
	if n, err := r.db.Lanes.Replay(t.Context(), nil, "home"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	g := r.dial("home")
	in := g.inbound()
	if in.Event.Text != "behind it" {
		t.Fatalf("%+v", in)
	}
	g.send(wire.InboundAck{Buffer: in.Buffer})
	last, ok := g.read().(wire.PassthroughForward)
	if want.Buffer = last.Buffer; !ok || !cmp.Equal(last, want) {
		t.Fatalf("last came %+v", last)
	}
	g.send(wire.InboundAck{Buffer: last.Buffer})
	eventually(t, "an empty lane", func() bool {
		l, err := r.db.Lanes.State(t.Context(), "home")
		return err == nil && l.Entries == 0 && l.Dead == 0
	})
}
