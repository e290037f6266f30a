package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// responder is the loopback bot with capabilities, commands and places.
type responder struct {
	*local.Loopback

	mu       sync.Mutex // guards the fields below
	did      []string
	gone     bool
	thinking map[string]bool // by token: what Thinking says
	asked    []string        // the tokens it was asked about
	commands []json.RawMessage
	located  []relay.ChatID
}

func (p *responder) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, fmt.Sprintf(format, args...))
}

func (p *responder) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.did)
}

func (p *responder) Respond(_ context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	if gone {
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "gone", Err: platforms.ErrCapabilityGone}
	}
	p.note("respond %s first=%v: %s", c.Token.RevealString(), first, a.Content)
	return relay.Result{MessageID: "r1"}, nil
}

func (p *responder) Thinking(_ context.Context, c platforms.Capability) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false, &relay.ActionError{Outcome: relay.NotSent, Public: "gone", Err: platforms.ErrCapabilityGone}
	}
	p.asked = append(p.asked, c.Token.RevealString())
	return p.thinking[c.Token.RevealString()], nil
}

func (p *responder) Discard(_ context.Context, c platforms.Capability) error {
	p.note("discard %s", c.Token.RevealString())
	return nil
}

func (p *responder) Settle(_ context.Context, c platforms.Capability) error {
	p.note("settle %s", c.Token.RevealString())
	return nil
}

func (p *responder) SetCommands(m []json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = m
}

func (p *responder) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.located = append(p.located, chat)
	return relay.Place{Platform: local.LoopbackID, Scope: "park", Chat: chat, Parent: "park/lawn"}, nil
}

// slash is a slash command in a chat of the bot's, and the capability to answer it, whose placeholder is shown.
func slash(bot relay.Bot, user relay.UserID, chat relay.ChatID, id, text, token string) platforms.Batch {
	ev := relay.Event{
		ID: relay.EventID(id), Bot: bot, MessageID: relay.MessageID(id), Type: relay.TypeCommand, Text: text, At: time.Now(),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: chat, ChatType: relay.ChatGroup, UserID: user},
		Traits: relay.Traits{Addressed: true},
	}
	if chat == relay.ChatID("@"+user) {
		ev.Source.ChatType = relay.ChatDM
	}
	c := platforms.Capability{
		Event: ev.ID, Kind: slashKind, ID: id, Token: relay.NewSecret([]byte(token)), Placeholder: true, ExpiresAt: time.Now().Add(15 * time.Minute),
	}
	return platforms.Batch{Events: []relay.Event{ev}, Capabilities: []platforms.Capability{c}}
}

// command hands in a slash command of user in their direct messages, with a capability of that token.
func (r *rig) command(user relay.UserID, id, text, token string, placeholder bool) {
	r.t.Helper()
	b := slash(r.bot, user, "@"+relay.ChatID(user), id, text, token)
	b.Capabilities[0].Placeholder = placeholder
	must.Succeed(r.t, r.hub.in.Inbox(r.bot).Accept(r.t.Context(), b))
}

// holds reports whether the instance may use the capability of the event.
func (r *rig) holds(i relay.InstanceID, e relay.EventID) bool {
	r.t.Helper()
	all, err := r.hub.out.Capabilities.Held(r.t.Context(), i)
	if err != nil {
		r.t.Error(err)
	}
	return slices.ContainsFunc(all, func(c capability.Record) bool { return c.Event == e })
}

// give stores an event for the instance, and a capability that came in it. What is not given is made up.
func (r *rig) give(c capability.Record, token string) capability.Record {
	r.t.Helper()
	c.Bot, c.Kind, c.ID = r.bot, slashKind, string(c.Event)
	if c.Tenant == "" {
		c.Tenant = relay.DefaultTenant
	}
	if c.ExpiresAt.IsZero() {
		c.ExpiresAt = time.Now().Add(15 * time.Minute).UTC()
	}
	bucket, key := c.Place()
	c.Sealed = r.hub.opts.Seal.Seal(bucket, key, relay.NewSecret([]byte(token)))
	ev := relay.Event{ID: c.Event, Bot: r.bot, At: time.Now(), Source: relay.Source{Platform: r.bot.Platform, ChatID: c.Chat}}
	frame, _ := wire.Pack(ev)
	r.hub.out.Capabilities.Bind(platforms.Capability{ExpiresAt: c.ExpiresAt}, ev, c.Tenant, c.Instance, false) // nobody has answered yet
	out, err := r.db.Accept(r.t.Context(), store.Accept{Bot: r.bot, Items: []store.AcceptItem{{
		Delivery: ev, Frame: frame, To: []store.Recipient{{Instance: c.Instance}}, Capability: &c,
	}}})
	if err != nil || out.Items[0].Duplicate {
		r.t.Fatalf("give %s: %+v, %v", c.Event, out, err)
	}
	return c
}

func newResponderRig(t *testing.T) (*rig, *responder) {
	t.Helper()
	p := &responder{}
	r := newRigWith(t, func(l *local.Loopback) platforms.Bot { p.Loopback = l; return p })
	return r, p
}

func TestTheFirstSendAnswersThroughTheCapability(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.command("ann", "i1", "/status", "tok1", true)
	r.command("ann", "i2", "/help", "tok2", true)
	in := g.inbound()
	if in.Event.MessageID != "i1" {
		t.Fatalf("inbound = %+v", in)
	}
	g.send(wire.InboundAck{Buffer: in.Buffer})
	g.inbound()
	for n, s := range []relay.Send{
		{Chat: "@ann", Content: "by name", ReplyTo: "i2"},
		{Chat: "@ann", Content: "oldest unanswered"},
		{Chat: "@ann", Content: "follow-up", ReplyTo: "i2"},
		{Chat: "@ann", Content: "ordinary"},
	} {
		if res := g.do(relay.Request{ID: relay.RequestID(fmt.Sprint(n)), Action: s}); res.Err != nil {
			t.Fatalf("send %d = %+v", n, res.Err)
		}
	}
	key := relay.SessionKey("agent:main:loopback:dm:@ann")
	if res := g.do(relay.Request{Action: relay.FollowUp{Session: key, Kind: slashKind, Content: "named"}}); res.Err != nil {
		t.Fatalf("follow_up = %+v", res.Err)
	}
	want := []string{
		"respond tok2 first=true: by name", "respond tok1 first=true: oldest unanswered",
		"respond tok2 first=false: follow-up", "respond tok2 first=false: named",
	}
	if diff := cmp.Diff(want, p.log()); diff != "" {
		t.Errorf("what the platform did (-want +got):\n%s", diff)
	}
	if acts := r.net.Acts(); len(acts) != 1 || acts[0].Text != "ordinary" {
		t.Errorf("ordinary messages = %+v, want the last send only", acts)
	}
}

func TestACapabilityTheNetworkForgotIsForgottenHere(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.command("ann", "i1", "/status", "tok1", true)
	g.inbound()
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	if res := g.do(send("@ann", "anyway")); res.Err != nil {
		t.Fatalf("send = %+v", res.Err)
	}
	if acts := r.net.Acts(); len(acts) != 1 || acts[0].Text != "anyway" {
		t.Errorf("acts = %+v, want an ordinary message", acts)
	}
	if r.holds("home", "i1") {
		t.Error("the capability is still kept")
	}
}

func TestNobodysCommandLosesItsPlaceholder(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.command("eve", "i1", "/status", "tok1", true)
	wait.Until(t, "the discarding", func() bool { return slices.Contains(p.log(), "discard tok1") })
	r.command("eve", "i2", "/other", "tok2", false)
	r.command("ann", "i3", "/status", "tok3", true)
	if got := p.log(); len(got) != 1 {
		t.Errorf("what the platform did = %q, want the first discarded and nothing else", got)
	}
}

func TestARepeatedCommandKeepsItsPlaceholder(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	for range 2 {
		r.command("ann", "i1", "/status", "tok1", true)
	}
	r.command("eve", "i2", "/status", "tok2", true) // behind what would have been done
	wait.Until(t, "the discarding", func() bool { return slices.Contains(p.log(), "discard tok2") })
	if got := p.log(); len(got) != 1 {
		t.Errorf("what the platform did = %q, want the stranger's placeholder discarded and nothing else", got)
	}
}

// Of two instances that receive one command the author's own answers in its place: what the other
// answered there would take the first answer away.
func TestACapabilityHasOneHolder(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	r.claim("kids", "@ann")
	r.update("kids", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	r.command("ann", "i1", "/status", "tok1", true)
	for _, name := range []string{"kids", "home"} {
		g := r.dial(name)
		g.inbound()
		if res := g.do(send("@ann", name)); res.Err != nil {
			t.Fatalf("send of %s = %+v", name, res.Err)
		}
	}
	if want := []string{"respond tok1 first=true: home"}; !slices.Equal(p.log(), want) {
		t.Errorf("the platform did %q, want %q", p.log(), want)
	}
	if acts := r.net.Acts(); len(acts) != 1 || acts[0].Text != "kids" {
		t.Errorf("ordinary messages = %+v, want that of kids", acts)
	}
}

func TestALinkCodeByCommandIsAnsweredInPlace(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home")
	code, _, err := r.desk.Mint(t.Context(), audit.Actor{}, "home", "")
	must.Succeed(t, err)
	r.command("ann", "i1", "/link "+code, "tok1", true)
	wait.Until(t, "the answer", func() bool { return len(p.log()) == 1 })
	if got := p.log()[0]; got[:len("respond tok1 first=true: ")] != "respond tok1 first=true: " {
		t.Errorf("the platform did %q", got)
	}
}

func TestCommandsAreUnitedByName(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	hello := func(name string, manifest ...string) {
		t.Helper()
		g := r.dialOnly(name)
		f := wire.Hello{Platform: local.LoopbackID, BotID: local.Handle}
		for _, m := range manifest {
			f.Manifest = append(f.Manifest, json.RawMessage(m))
		}
		g.send(f)
		g.read()
	}
	hello("kids", `{"name":"new","description":"theirs"}`, `{"name":"b"}`, `{"nameless":1}`)
	hello("home", `{"name":"new","description":"ours"}`, `{"name":"a"}`)
	shown := func() (got []string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.commands {
			got = append(got, string(c))
		}
		return got
	}
	want := []string{`{"name":"new","description":"ours"}`, `{"name":"a"}`, `{"name":"b"}`} // home was enrolled first
	if diff := cmp.Diff(want, shown()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if _, err := r.db.Revoke(t.Context(), nil, "home"); err != nil {
		t.Fatal(err)
	}
	r.bus.Publish(bus.Revoked{Gateway: "home"})
	left := []string{`{"name":"new","description":"theirs"}`, `{"name":"b"}`}
	wait.Until(t, "the commands of the revoked one to go", func() bool { return slices.Equal(shown(), left) })
}

func TestAThreadIsPlacedForItsGrant(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	must.Succeed(t, r.db.Claim(t.Context(), nil, store.Grant{Platform: local.LoopbackID, Scope: "park", Chat: "park/lawn", Instance: "home"}))
	if res := r.dial("home").do(send("thread7", "x")); res.Err != nil {
		t.Errorf("send to a thread of a granted chat = %+v", res.Err)
	}
	if res := r.dial("kids").do(send("thread7", "x")); res.Err == nil {
		t.Error("another instance may write there")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.located) == 0 || slices.Contains(p.located, "@ann") {
		t.Errorf("located %q", p.located)
	}
}

func TestChatsOfTheDirectory(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.claim("home", "garden")
	r.say(local.Message{User: "ann", Text: "hi"})
	r.say(local.Message{User: "ann", Chat: "garden", Text: "hi"})
	in := r.hub.in.Inbox(r.bot).(platforms.Directory)
	got, err := in.Chats(t.Context())
	must.Succeed(t, err)
	want := []relay.Place{{Platform: local.LoopbackID, Chat: "garden"}, {Platform: local.LoopbackID, Chat: "@ann"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chats (-want +got):\n%s", diff)
	}
}
