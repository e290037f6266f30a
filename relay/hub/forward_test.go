package hub

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// request is an interaction of user in the chat, empty: in their direct messages, which goes to gateways as a request.
func (r *rig) request(user relay.UserID, chat relay.ChatID, id string, until time.Time, press bool) relay.Forward {
	r.t.Helper()
	if chat == "" {
		chat = "@" + relay.ChatID(user)
	}
	b := slash(r.bot, user, chat, id, "/"+id, "token of "+id)
	b.Events[0].Traits.Press, b.Capabilities[0].Placeholder = press, !press
	f := relay.Forward{
		Event: b.Events[0], Method: "POST", Path: platforms.HookPath(r.bot), Headers: [][2]string{{"content-type", "application/json"}},
		Body: fmt.Appendf(nil, `{"id":%q}`, id), Until: until,
	}
	b.Forwards = []relay.Forward{f}
	must.Succeed(r.t, r.hub.in.Inbox(r.bot).Accept(r.t.Context(), b))
	return f
}

func soon() time.Time { return time.Now().Add(15 * time.Minute) }

// forwarded reads the next frame, which is that of f, and returns its buffer id.
func (g *gateway) forwarded(f relay.Forward) string {
	g.t.Helper()
	got, ok := g.read().(wire.PassthroughForward)
	want := f
	want.Event, want.Until = relay.Event{Bot: f.Event.Bot}, time.Time{} // all of it that travels
	if diff := cmp.Diff(want, got.Forward); !ok || diff != "" || got.Buffer == "" {
		g.t.Fatalf("frame %+v (-want +got):\n%s", got, diff)
	}
	return got.Buffer
}

func (r *rig) empty(name relay.InstanceID) {
	r.t.Helper()
	wait.Until(r.t, "an empty lane", func() bool {
		l, err := r.db.Lanes.State(r.t.Context(), name)
		return err == nil && l.Entries == 0 && l.Dead == 0
	})
}

// TestWhoAcknowledgesWhenDone: a forward does not count as taken because its gateway lives, if that acknowledges what it is done
// with: it may have come while its disk took no more.
func TestWhoAcknowledgesWhenDone(t *testing.T) {
	s := new(attachment)
	s.oneByOne.Store(true)
	if s.answers(t.Context()) {
		t.Error("a sign of life counts for an acknowledgement")
	}
}

// TestAForwardIsADeliveryLikeAnother: it comes in its order, holds up nobody, is taken with what is acknowledged behind
// it, and is sent once more to the next session if nothing said that it was taken.
func TestAForwardIsADeliveryLikeAnother(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	first := r.request("ann", "", "i1", soon(), true)
	r.say(local.Message{User: "ann", Text: "between"})
	second := r.request("ann", "", "i2", soon(), false)
	g := r.dial("home")
	id := g.forwarded(first)
	in := g.inbound()
	if in.Event.Text != "between" {
		t.Fatalf("%+v", in)
	}
	last := g.forwarded(second) // though nothing is acknowledged
	g.send(wire.InboundAck{Buffer: in.Buffer})
	wait.Until(t, "the first to be taken", func() bool { return cmp.Equal(r.texts("home"), []string{"/i2"}) })
	if !slices.Contains(p.log(), "settle token of i1") {
		t.Error("the buttons that were pressed are still there")
	}
	if res := g.do(send("@ann", "done")); res.Err != nil {
		t.Fatalf("send: %+v", res.Err)
	}
	_ = g.conn.CloseNow()
	wait.Until(t, "the end of the session", func() bool { return !r.hub.Connected("home") })
	if got := r.texts("home"); !cmp.Equal(got, []string{"/i2"}) {
		t.Fatalf("left behind: %q", got)
	}
	g = r.dial("home")
	if again := g.forwarded(second); again != last || again == id {
		t.Fatalf("under the id %s, then %s", last, again)
	}
	r.empty("home") // the second time is the last
	g.send(wire.InboundAck{Buffer: last})
	third := r.request("ann", "", "i3", soon(), false)
	g.send(wire.InboundAck{Buffer: g.forwarded(third)}) // a gateway that does acknowledge
	r.empty("home")
}

// TestAForwardThatCannotGoAsOne goes as an ordinary event.
func TestAForwardThatCannotGoAsOne(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.request("ann", "", "late", time.Now().Add(-time.Second), false)
	in := g.inbound()
	if in.Event.Text != "/late" || in.Event.MessageID != "late" {
		t.Fatalf("%+v", in)
	}
	g.send(wire.InboundAck{Buffer: in.Buffer})
	ev := relay.Event{
		ID: "large", Bot: r.bot, MessageID: "large", Text: "/large", At: time.Now(),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann"},
	}
	f := relay.Forward{Event: ev, Method: "POST", Path: "/", Body: make([]byte, wire.MaxFrame), Until: soon()}
	must.Succeed(t, r.hub.in.Inbox(r.bot).Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev}, Forwards: []relay.Forward{f}}))
	in = g.inbound()
	if in.Event.Text != "/large" {
		t.Fatalf("%+v", in)
	}
	g.send(wire.InboundAck{Buffer: in.Buffer})
	r.empty("home")
}

// TestAForwardGoesWhereItsEventWould, in two tenants that share a chat: a command to both who receive it, a press to
// the instance of whoever pressed only, and to nobody what nobody may see.
func TestAForwardGoesWhereItsEventWould(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	kids := store.Instance{ID: "kids", Tenant: "other", CreatedAt: time.Now(), Principal: store.Principal{Policy: relay.AnyOne}}
	must.Succeed(t, r.db.Enroll(t.Context(), nil, store.Gateway{ID: "kids", Instance: "kids", Tenant: "other", CreatedAt: time.Now()}, kids))
	must.Succeed(t, r.db.Bind(t.Context(), nil, store.Binding{Tenant: "other", Platform: local.LoopbackID, User: "bob", Instance: "kids", BoundAt: time.Now()}))
	must.Succeed(t, r.db.Claim(t.Context(), nil, store.Grant{Platform: local.LoopbackID, Chat: "park", Instance: "kids", Tenant: "other", GrantedAt: time.Now()}))
	r.say(local.Message{User: "bob", Chat: "park", Text: "hi"}) // so it is known that Bob sees the chat
	for n, tc := range []struct {
		user  relay.UserID
		press bool
		want  map[relay.InstanceID]bool
	}{
		{"ann", false, map[relay.InstanceID]bool{"home": true, "kids": true}},
		{"ann", true, map[relay.InstanceID]bool{"home": true}},
		{"bob", true, map[relay.InstanceID]bool{"kids": true}},
		{"eve", true, map[relay.InstanceID]bool{"kids": true}}, // whom the chat's holder lets in
	} {
		id := fmt.Sprint("i", n)
		r.request(tc.user, "park", id, soon(), tc.press)
		wait.Until(t, "a verdict", r.decided)
		for _, name := range []relay.InstanceID{"home", "kids"} {
			es, err := r.db.Lanes.Entries(t.Context(), name, store.EntryFilter{})
			must.Succeed(t, err)
			at := slices.IndexFunc(es, func(e store.Entry) bool { return string(e.About.ID) == id })
			if at >= 0 != tc.want[name] || at >= 0 && es[at].Forward == nil {
				t.Errorf("%s of %s (a press: %v) at %s: %v", id, tc.user, tc.press, name, r.reasons())
			}
		}
	}
	r.request("eve", "", "direct", soon(), false)
	if why := r.reasons(); why[""] != gate.NoBinding {
		t.Errorf("a stranger's: %v", why)
	}
}

// TestAForwardInDeadLettersComesBack as one.
func TestAForwardInDeadLettersComesBack(t *testing.T) {
	r := newRigOn(t, store.Options{Limits: store.Limits{MaxEntries: 1}}, func(p *local.Loopback) platforms.Bot { return p })
	r.enroll("home", "ann")
	f := r.request("ann", "", "i1", soon(), false)
	r.say(local.Message{User: "ann", Text: "pushes it out"})
	g := r.dial("home")
	g.send(wire.InboundAck{Buffer: g.inbound().Buffer})
	wait.Until(t, "an empty lane", func() bool { return len(r.texts("home")) == 0 })
	if n, err := r.db.Lanes.Replay(t.Context(), nil, "home"); n.Moved != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.hub.lane("home").Grown(0)
	g.send(wire.InboundAck{Buffer: g.forwarded(f)})
	r.empty("home")
}
