package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

func send(chat relay.ChatID, text string) relay.Request {
	return relay.Request{Action: relay.Send{Chat: chat, Content: text}}
}

func TestAMessageReachesTheGatewayAndTheAnswerThePerson(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.say(local.Message{User: "ann", Text: "hello"})
	in := g.inbound()
	if in.Event.Text != "hello" || in.Event.Source.ChatID != "@ann" || in.Buffer == "" {
		t.Fatalf("inbound = %+v, want ann's hello with a buffer id", in)
	}
	res := g.do(send("@ann", "hi ann"))
	act, err := r.net.Act(t.Context(), 0)
	if err != nil || act.Text != "hi ann" {
		t.Fatalf("act = %+v, %v, want the answer", act, err)
	}
	if res.Err != nil || res.Result.MessageID != act.Message {
		t.Errorf("result = %+v, want message %s", res, act.Message)
	}
	g.send(wire.InboundAck{Buffer: in.Buffer})
	wait.Until(t, "the deletion of the acknowledged entry", func() bool { return len(r.texts("home")) == 0 })
}

func TestABacklogIsDrainedInOrderOneByOne(t *testing.T) {
	r := newRig(t)
	var people []relay.UserID // what one person says is joined, and waits for the answer to what was said before
	for i := range 20 {
		people = append(people, relay.UserID(fmt.Sprint("p", i)))
	}
	r.enroll("home", people...)
	for i, person := range people {
		r.say(local.Message{User: person, Text: fmt.Sprint(i)})
	}
	g := r.dial("home")
	for i := range 20 {
		in := g.inbound()
		if in.Event.Text != fmt.Sprint(i) {
			t.Fatalf("delivery %d = %q", i, in.Event.Text)
		}
		if i == 10 { // an acknowledgement for something not in flight changes nothing
			g.send(wire.InboundAck{Buffer: relay.BufferID{Epoch: 1, Seq: 12}.String()})
		}
		g.send(wire.InboundAck{Buffer: in.Buffer})
	}
	wait.Until(t, "the last deletion", func() bool { return len(r.texts("home")) == 0 })
	if got := r.hub.Counters()["ack_ignored"]; got != 1 {
		t.Errorf("ignored acknowledgements = %d, want 1", got)
	}
}

func TestTheUnacknowledgedEntryComesAgain(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.say(local.Message{User: "ann", Text: "one"})
	g := r.dial("home")
	first := g.inbound()
	_ = g.conn.CloseNow()
	again := r.dial("home").inbound()
	if again.Buffer != first.Buffer || again.Event.Text != "one" {
		t.Errorf("after the socket died: %+v, want %s again", again, first.Buffer)
	}
}

// TestAnEntryThatKillsItsGatewaysBecomesADeadLetter, and it alone: what had come with it comes by itself before.
func TestAnEntryThatKillsItsGatewaysBecomesADeadLetter(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	for _, text := range []string{"one", "poison", "fine"} {
		r.say(local.Message{User: "ann", Text: text})
	}
	dies := func(want string) {
		t.Helper()
		g := r.dial("home")
		if in := g.inbound(); in.Event.Text != want {
			t.Fatalf("inbound = %q, want %q", in.Event.Text, want)
		}
		_ = g.conn.CloseNow()
		wait.Until(t, "the end of the session", func() bool { return !r.hub.Connected("home") })
	}
	dies("one\npoison\nfine")
	dies("one\npoison\nfine")
	g := r.dial("home")
	one := g.inbound()
	if one.Event.Text != "one" {
		t.Fatalf("inbound = %q, want the oldest by itself", one.Event.Text)
	}
	g.send(wire.InboundAck{Buffer: one.Buffer})
	wait.Until(t, "the acknowledgement", func() bool { return len(r.texts("home")) == 2 })
	_ = g.conn.CloseNow()
	wait.Until(t, "the end of the session", func() bool { return !r.hub.Connected("home") })
	for range 3 {
		dies("poison")
	}
	if in := r.dial("home").inbound(); in.Event.Text != "fine" {
		t.Errorf("inbound = %q, want the one behind the dead letter", in.Event.Text)
	}
	dead, err := r.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{Dead: true})
	if err != nil || len(dead) != 1 || dead[0].Reason != store.DeadDeaths {
		t.Errorf("dead letters = %+v, %v, want one", dead, err)
	}
}

func TestEgress(t *testing.T) {
	t.Parallel()
	const declined = "loopback egress declined: target is not an approved destination for this connection"
	for name, tc := range map[string]struct {
		set  func(r *rig)
		req  relay.Request
		want string // the error; empty: done
	}{
		"a direct message with someone bound":     {req: send("@ann", "x")},
		"a direct message with a stranger":        {req: send("@eve", "x"), want: declined},
		"a shared chat of a bound person's name":  {req: send("ann", "x"), want: declined},
		"a chat never heard of":                   {req: send("nowhere", "x"), want: declined},
		"a granted chat":                          {set: func(r *rig) { r.claim("home", "garden") }, req: send("garden", "x")},
		"a chat granted to another":               {set: func(r *rig) { r.enroll("kids"); r.claim("kids", "garden") }, req: send("garden", "x"), want: declined},
		"a chat an event was delivered from":      {set: func(r *rig) { r.say(local.Message{User: "ann", Chat: "garden", Text: "x"}) }, req: send("garden", "x")},
		"once the binding behind it is gone":      {set: heardThenUnbound, req: send("garden", "x"), want: declined},
		"an unknown operation":                    {req: relay.Request{Action: relay.UnknownAction{Name: "dance", Chat: "@ann"}}, want: "unsupported op dance"},
		"an operation the bot cannot do":          {req: relay.Request{Action: relay.Draft{Chat: "@ann", DraftID: 1, Content: "?"}}, want: "unsupported op draft"},
		"a platform that is not an identity":      {req: relay.Request{Platform: "telegram", Action: relay.Send{Chat: "@ann", Content: "x"}}, want: "telegram egress declined: target is not an approved destination for this connection"},
		"a bot that is not an identity":           {req: relay.Request{Platform: local.LoopbackID, Bot: "other", Action: relay.Send{Chat: "@ann", Content: "x"}}, want: declined},
		"the identity by name":                    {req: relay.Request{Platform: local.LoopbackID, Bot: local.Handle, Action: relay.Send{Chat: "@ann", Content: "x"}}},
		"chat info of a stranger is the same no":  {req: relay.Request{Action: relay.GetChatInfo{Chat: "@eve"}}, want: declined},
		"a follow-up with nothing to wield":       {req: relay.Request{Action: relay.FollowUp{Session: "agent:main:loopback:dm:@ann", Kind: slashKind, Content: "x"}}, want: "follow_up declined: no capability for this session"},
		"a send without a chat":                   {req: relay.Request{Action: relay.UnknownAction{Name: relay.OpSend, Reason: "chat_id"}}, want: "invalid send: chat_id is missing or not an id"},
		"edit of a message in an approved chat":   {req: relay.Request{Action: relay.Edit{Chat: "@ann", Message: "none", Content: "x"}}, want: "message"},
		"a grant that was released is none":       {set: grantedThenReleased, req: send("garden", "x"), want: declined},
		"a grant on the chat of an instance only": {set: func(r *rig) { r.claim("home", "garden"); r.enroll("kids") }, req: send("garden", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home", "ann")
			if tc.set != nil {
				tc.set(r)
			}
			before := len(r.net.Acts())
			g := r.dial("home")
			if in := len(r.texts("home")); in > 0 {
				g.inbound()
			}
			res := g.do(tc.req)
			switch {
			case tc.want == "" && res.Err != nil:
				t.Errorf("error = %q, want success", res.Err.Public)
			case tc.want == "" && len(r.net.Acts()) != before+1:
				t.Errorf("the bot did %d things, want one", len(r.net.Acts())-before)
			case tc.want != "" && (res.Err == nil || !strings.Contains(res.Err.Public, tc.want)):
				t.Errorf("result = %+v, want an error with %q", res, tc.want)
			case tc.want == declined && res.Err.Code != relay.CodeEgressDeclined:
				t.Errorf("code = %q, want %q", res.Err.Code, relay.CodeEgressDeclined)
			case tc.want != "" && len(r.net.Acts()) != before:
				t.Error("a refused action reached the platform")
			}
		})
	}
}

func TestAnActionOnAPlatformWithoutABotIsInvalid(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dialOnly("home")
	g.send(wire.Hello{Platform: "telegram"})
	g.read()
	want := "invalid send: no bot of platform telegram is hosted here"
	req := send("@ann", "x")
	req.Platform = "telegram"
	if res := g.do(req); res.Err == nil || res.Err.Public != want || res.Err.Outcome != relay.NotSent {
		t.Errorf("result = %+v, want %q, not sent", res, want)
	}
}

func TestADeclineToldWithoutAPlatformSaysRelay(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dialOnly("home")
	g.send(wire.Hello{Platform: relay.RelayPlatform})
	g.read()
	if res := g.do(send("@eve", "x")); res.Err == nil || !strings.HasPrefix(res.Err.Public, "relay egress declined:") {
		t.Errorf("result = %+v, want a decline of relay", res)
	}
}

func TestTheIdentityOfEveryBotNamesNone(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dialOnly("home")
	g.send(wire.Hello{Platform: relay.RelayPlatform})
	g.read()
	req := send("@ann", "x")
	req.Platform = relay.RelayPlatform
	if res := g.do(req); res.Err != nil {
		t.Errorf("error = %q, want success", res.Err.Public)
	}
	named := r.dial("home") // which did not say hello as "relay"
	if res := named.do(req); res.Err == nil || res.Err.Code != relay.CodeEgressDeclined {
		t.Errorf("result = %+v, want a decline", res)
	}
}

func heardThenUnbound(r *rig) {
	r.say(local.Message{User: "ann", Chat: "garden", Text: "x"})
	must.Succeed(r.t, r.db.Unbind(r.t.Context(), nil, "home", local.LoopbackID, "ann"))
}

func grantedThenReleased(r *rig) {
	r.claim("home", "garden")
	must.Succeed(r.t, r.db.Release(r.t.Context(), nil, "home", local.LoopbackID, "", "garden"))
}

func TestHello(t *testing.T) {
	for name, tc := range map[string]struct {
		hello wire.Hello
		want  relay.PlatformID
		ops   bool
	}{
		"a hosted bot":                {wire.Hello{Platform: local.LoopbackID, BotID: local.Handle}, local.LoopbackID, true},
		"a platform without a bot id": {wire.Hello{Platform: local.LoopbackID}, local.LoopbackID, true},
		"relay has the least common":  {wire.Hello{Platform: relay.RelayPlatform}, relay.RelayPlatform, true},
		"a platform nobody hosts":     {wire.Hello{Platform: "irc", BotID: "7"}, "irc", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home", "ann")
			g := r.dialOnly("home")
			g.send(tc.hello)
			d, ok := g.read().(wire.Descriptor)
			if !ok || d.Platform != tc.want || (len(d.SupportedOps) > 0) != tc.ops || d.MaxMessageLength <= 0 {
				t.Fatalf("descriptor = %+v, want platform %s", d, tc.want)
			}
			res := g.do(send("@ann", "x"))
			if (res.Err == nil) != tc.ops {
				t.Errorf("send = %+v, want success %v", res, tc.ops)
			}
		})
	}
}

func TestANewerSessionTakesOver(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.say(local.Message{User: "ann", Text: "one"})
	old := r.dial("home")
	old.inbound()
	newer := r.dial("home")
	if code := old.closed(); code != session.CodeReplaced {
		t.Errorf("the older session closed with %d, want %d", code, session.CodeReplaced)
	}
	if in := newer.inbound(); in.Event.Text != "one" {
		t.Errorf("the newer session got %q, want the entry in flight", in.Event.Text)
	}
	old2 := r.dialOnly("home") // says nothing, so it replaces nobody
	newer.send(wire.InboundAck{Buffer: "x"})
	if res := newer.do(send("@ann", "still here")); res.Err != nil {
		t.Errorf("send after a silent dial = %+v", res)
	}
	_ = old2.conn.CloseNow()
}

// TestACopiedCredentialTakesNoSeat: nor does a socket that was there before it was known as copied.
func TestACopiedCredentialTakesNoSeat(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	silent := r.dialOnly("home", "from=192.0.2.9")
	var newest *gateway
	for n := range maxTakeovers + 2 {
		newest = r.dial("home", fmt.Sprintf("from=192.0.2.%d", n%2+1))
	}
	silent.send(wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID})
	if code := silent.closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("closed with %d, want 1013", code)
	}
	if res := newest.do(send("@ann", "x")); res.Err != nil {
		t.Errorf("the newest lost the instance: %+v", res)
	}
}

func TestACopiedCredentialIsRefusedAndTold(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	var last *gateway
	for i := range maxTakeovers + 2 {
		last = r.dial("home", fmt.Sprintf("from=127.0.0.%d", 1+i%2))
	}
	if got := r.hub.Warning("home"); got != "copied_credential" {
		t.Errorf("warning = %q, want copied_credential", got)
	}
	late := r.dialOnly("home", "from=127.0.0.9")
	if code := late.closed(); code == session.CodeUnauthorized || code == session.CodeReplaced {
		t.Errorf("the next dial closed with %d, want a refusal that is no verdict", code)
	}
	if res := last.do(send("@ann", "x")); res.Err != nil {
		t.Errorf("the newest session does not stay: %+v", res)
	}
}

// TestACopyAtOneAddressIsTold: two programs on one machine look like one that redials, so it takes more to tell, and
// nobody is refused for it.
func TestACopyAtOneAddressIsTold(t *testing.T) {
	var fight takeovers
	now, home := time.Now(), netip.MustParseAddr("192.0.2.1")
	for i := range 2*maxTakeovers + 1 {
		if fight.restless(now) {
			t.Fatalf("told after %d takeovers", i)
		}
		now = now.Add(time.Second)
		fight.add(now, home)
	}
	if !fight.restless(now) || fight.copied(now) {
		t.Errorf("told: %t, refused: %t; want it told alone", fight.restless(now), fight.copied(now))
	}
	if fight.restless(now.Add(takeoverWindow)) {
		t.Error("it is still told after a quiet minute")
	}
}

func TestRevocationClosesTheSocketAtOnce(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	if _, err := r.db.Revoke(t.Context(), nil, "home"); err != nil {
		t.Fatal(err)
	}
	r.bus.Publish(bus.Revoked{Gateway: "home"})
	if code := g.closed(); code != session.CodeUnauthorized {
		t.Errorf("closed with %d, want 4401", code)
	}
	if code := r.dialOnly("home").closed(); code != session.CodeUnauthorized {
		t.Errorf("a dial that slipped through closed with %d, want 4401", code)
	}
}

// TestASeatIsFreeAfterAHelloThatFailed: the session ended while its hello was being stored.
func TestASeatIsFreeAfterAHelloThatFailed(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dialOnly("home")
	var s *attachment
	wait.Until(t, "the session", func() bool {
		if live := r.hub.sockets.of("home"); len(live) > 0 {
			s = live[0]
		}
		return s != nil
	})
	over, end := context.WithCancel(t.Context())
	end()
	if err := s.Hello(over, wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID}); err == nil {
		t.Fatal("the hello was stored after its session")
	}
	_ = g.conn.CloseNow()
	wait.Until(t, "the instance to be free", func() bool { return !r.hub.Connected("home") && !r.hub.Awake("home") })
}

// TestAGatewayIsHeardThoughItsCommandsCannotBeStored: there is no room for them.
func TestAGatewayIsHeardThoughItsCommandsCannotBeStored(t *testing.T) {
	r := newRigOn(t, store.Options{MaxSize: 256 << 10}, func(p *local.Loopback) platforms.Bot { return p })
	r.enroll("home", "ann")
	r.say(local.Message{User: "ann", Text: "hello"})
	large, err := json.Marshal(map[string]string{"name": "x", "description": strings.Repeat("x", 900<<10)})
	must.Succeed(t, err)
	g := r.dialOnly("home")
	g.send(wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID, Manifest: []json.RawMessage{large}})
	if f, ok := g.read().(wire.Descriptor); !ok {
		t.Fatalf("answer to the hello = %T, want a descriptor", f)
	}
	if in := g.inbound(); in.Event.Text != "hello" {
		t.Errorf("inbound = %q, want what waited", in.Event.Text)
	}
}

// TestARetiredSecretTakesNoSeat: nor does a socket that it opened while it was good.
func TestARetiredSecretTakesNoSeat(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	secrets := func(ids ...string) {
		t.Helper()
		must.Succeed(t, r.db.UpdateGateway(t.Context(), nil, "home", func(g *store.Gateway, _ *store.Instance) error {
			g.Secrets = nil
			for _, id := range ids {
				g.Secrets = append(g.Secrets, store.GatewaySecret{ID: id, Sealed: []byte(id)})
			}
			return nil
		}))
	}
	secrets("old", "new")
	silent := r.dialOnly("home", "secret=old")
	secrets("new")
	current := r.dial("home", "secret=new")
	silent.send(wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID})
	if code := silent.closed(); code != session.CodeUnauthorized {
		t.Errorf("closed with %d, want 4401", code)
	}
	if res := current.do(send("@ann", "x")); res.Err != nil {
		t.Errorf("the holder of the new secret lost the instance: %+v", res)
	}
}

func TestGoingIdle(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	g.send(wire.GoingIdle{})
	if f := g.read(); f != (wire.GoingIdleAck{}) {
		t.Fatalf("frame = %T, want going_idle_ack", f)
	}
	r.say(local.Message{User: "ann", Text: "while asleep"})
	i, err := store.Only(r.db.Instances(t.Context(), "home"))
	if err != nil || !i.Asleep {
		t.Fatalf("instance = %+v, %v, want asleep", i, err)
	}
	if !r.hub.Serves("home", "home") || r.hub.Serves("attic", "home") {
		t.Error("it is not known which gateway serves the instance")
	}
	if r.hub.Answers(t.Context(), "attic", "home") {
		t.Error("another gateway answers for the one that serves")
	}
	if !r.hub.Connected("home") || r.hub.Awake("home") {
		t.Error("with its socket open the sleeper is not connected, or awake")
	}
	if res := g.do(send("@ann", "still on the same socket")); res.Err != nil {
		t.Fatalf("send = %+v", res) // and no inbound frame came before it
	}
	_ = g.conn.Close(websocket.StatusNormalClosure, "")
	again := r.dial("home")
	if in := again.inbound(); in.Event.Text != "while asleep" {
		t.Errorf("inbound = %q, want what waited", in.Event.Text)
	}
	if i, err = store.Only(r.db.Instances(t.Context(), "home")); err != nil || i.Asleep {
		t.Errorf("instance = %+v, %v, want awake after the hello", i, err)
	}
	if !r.hub.Awake("home") {
		t.Error("not awake after the hello")
	}
}

func TestAnInterruptComesToTheInstanceThatRunsTheKey(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	home, kids := r.dial("home"), r.dial("kids")
	r.say(local.Message{User: "ann", Text: "work"})
	home.inbound()
	key := relay.SessionKey("agent:main:loopback:dm:@ann")
	kids.send(wire.Interrupt{Session: "agent:main:loopback:dm:@nobody"}) // a no-op
	kids.send(wire.Interrupt{Session: key})
	f, ok := home.read().(wire.InterruptInbound)
	if !ok || f.Session != key || f.Chat != "@ann" {
		t.Errorf("frame = %+v, want the interrupt of %s", f, key)
	}

	home.send(wire.GoingIdle{})
	if f := home.read(); f != (wire.GoingIdleAck{}) {
		t.Fatalf("frame = %T, want going_idle_ack", f)
	}
	kids.send(wire.Interrupt{Session: key})
	kids.do(send("@bob", "done")) // behind the interrupt
	if res := home.do(send("@ann", "still there")); res.Err != nil {
		t.Errorf("send = %+v", res) // and the interrupt did not come before it
	}
}
