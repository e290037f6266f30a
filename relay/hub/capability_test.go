package hub

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

const annsKey = relay.SessionKey("agent:main:loopback:dm:@ann")

// restarted is a hub that knows what is stored and nothing else, as after a restart. It does not run.
func (r *rig) restarted(p platforms.Bot, seal outbound.Sealer) *Hub {
	return New(r.db, r.desk, r.bus, []platforms.Bot{p}, Options{Seal: seal})
}

// sits is the attachment of the instance's gateway, without a socket.
func sits(h *Hub, t relay.TenantID, i relay.InstanceID, bots ...relay.Bot) *attachment {
	s := h.newAttachment(nil, session.Peer{Tenant: t, Instance: i, Gateway: relay.GatewayID(i)})
	s.identities = bots
	return s
}

// think sets what the network says of each placeholder.
func (p *responder) think(tokens ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thinking = map[string]bool{}
	for _, token := range tokens {
		p.thinking[token] = true
	}
}

func (p *responder) asks() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// TestCapabilitiesOutliveARestart: the answer goes in the placeholder's place if the network says that it stands
// there, which is asked once; and none goes there if somebody has answered.
func TestCapabilitiesOutliveARestart(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	for n := range 3 {
		r.command("ann", fmt.Sprint("i", n), "/ask", fmt.Sprint("tok", n), true)
	}
	p.think("tok0", "tok2") // somebody answered the other before the crash
	h := r.restarted(p, plainSeal{})
	s := sits(h, relay.DefaultTenant, "home", r.bot)
	for _, text := range []string{"one", "two", "three"} { // of which none names a message
		res, done, err := h.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "@ann", Content: text})
		if want := text != "three"; done != want || err != nil {
			t.Errorf("%s: %+v, %v, %v", text, res, done, err)
		}
	}
	if _, err := act(t.Context(), s, relay.Request{Action: relay.FollowUp{Session: annsKey, Kind: slashKind, Content: "more"}}); err != nil {
		t.Error(err)
	}
	want := []string{"respond tok0 first=true: one", "respond tok2 first=true: two", "respond tok2 first=false: more"}
	if got := p.log(); !slices.Equal(got, want) {
		t.Errorf("the platform did %q, want %q", got, want)
	}
	if want := []string{"tok0", "tok1", "tok2"}; !slices.Equal(p.asks(), want) {
		t.Errorf("the network was asked about %q, want %q", p.asks(), want)
	}
	// What is known of the answers rides with the next commit, so that the next process need not ask.
	r.command("ann", "i3", "/ask", "tok3", true)
	h = r.restarted(p, plainSeal{})
	if _, _, err := h.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "@ann", Content: "four", ReplyTo: "i0"}); err != nil {
		t.Error(err)
	}
	if got := p.log(); got[len(got)-1] != "respond tok0 first=false: four" || len(p.asks()) != 3 {
		t.Errorf("the platform did %q and was asked about %q", got, p.asks())
	}
}

// TestAfterAnUnclearAnswerTheNetworkIsAsked whether the placeholder stands.
func TestAfterAnUnclearAnswerTheNetworkIsAsked(t *testing.T) {
	for _, stands := range []bool{true, false} {
		for how, a := range map[string]relay.Send{
			"by name": {Chat: "@ann", Content: "two", ReplyTo: "i1"}, "without": {Chat: "@ann", Content: "two"},
		} {
			t.Run(fmt.Sprint(how, ", it stands: ", stands), func(t *testing.T) {
				r, p := newMoodyRig(t)
				r.enroll("home", "ann")
				r.command("ann", "i1", "/ask", "tok1", true)
				p.answer = func(a relay.Send) error {
					if a.Content == "one" {
						return &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
					}
					return nil
				}
				if stands {
					p.think("tok1")
				}
				_, done, err := r.hub.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "@ann", Content: "one"})
				if !done || relay.Explain(err).Outcome != relay.MaybeSent {
					t.Fatal(done, err)
				}
				_, done, err = r.hub.out.Capabilities.Respond(t.Context(), "home", p, a)
				want := []string{"respond tok1 first=true: one", fmt.Sprintf("respond tok1 first=%v: two", stands)}
				if !stands && a.ReplyTo == "" { // an ordinary message
					want = want[:1]
				}
				if err != nil || done != (len(want) == 2) || !slices.Equal(p.log(), want) || len(p.asks()) != 1 {
					t.Errorf("%v, %v, the platform did %q, asked about %q", done, err, p.log(), p.asks())
				}
			})
		}
	}
}

// TestWithoutTheNetworksWordNothingIsReplaced: the answer goes out as a further one.
func TestWithoutTheNetworksWordNothingIsReplaced(t *testing.T) {
	r, p := newMoodyRig(t)
	r.enroll("home", "ann")
	r.command("ann", "i1", "/ask", "tok1", true)
	p.unknown = &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	h := r.restarted(p, plainSeal{})
	for _, a := range []relay.Send{{Chat: "@ann", Content: "one"}, {Chat: "@ann", Content: "two", ReplyTo: "i1"}} {
		if _, done, err := h.out.Capabilities.Respond(t.Context(), "home", p, a); !done || err != nil {
			t.Error(done, err)
		}
	}
	if want := []string{"respond tok1 first=false: one", "respond tok1 first=false: two"}; !slices.Equal(p.log(), want) {
		t.Errorf("the platform did %q, want %q", p.log(), want)
	}
}

// truthful is a network that puts an answer in the placeholder's place, and says whether it stands.
type truthful struct {
	responder
	dice  *rand.Rand
	place map[string]string // by token: what stands there; "" is the placeholder
	lost  []string          // answers that another one was put in the place of
	sent  int
}

func (p *truthful) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dice.IntN(n)
}

func (p *truthful) Respond(_ context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	mood := p.roll(10)
	time.Sleep(time.Duration(p.roll(1000)) * time.Millisecond)
	if mood == 0 {
		return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited"}
	}
	token := c.Token.RevealString()
	p.mu.Lock()
	defer p.mu.Unlock()
	if mood != 1 { // else it is lost on the way
		p.sent++
		switch stands := p.place[token]; {
		case stands == "":
			p.place[token] = a.Content
		case first:
			p.lost = append(p.lost, stands)
			p.place[token] = a.Content
		}
	}
	if mood < 4 {
		return relay.Result{}, &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	}
	return relay.Result{MessageID: "m"}, nil
}

func (p *truthful) Thinking(_ context.Context, c platforms.Capability) (bool, error) {
	if mood := p.roll(10); mood < 2 {
		return false, &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.place[c.Token.RevealString()] == "", nil
}

// TestNoAnswerIsPutInThePlaceOfAnother, however many come at once, in whatever way, over a network that loses answers
// and over restarts.
func TestNoAnswerIsPutInThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			db := storetest.Open(t, t.TempDir(), store.Options{})
			p := &truthful{dice: rand.New(rand.NewPCG(seed, 1)), place: map[string]string{}}
			p.Loopback = local.NewLoopback(local.NewNetwork(), nil)
			h := New(db, nil, &bus.Local{}, []platforms.Bot{p}, Options{Seal: plainSeal{}})
			r := &rig{t: t, db: db, bot: p.ID(), hub: h}
			r.enroll("home", "ann")
			for n := range 6 {
				r.give(capability.Record{
					Event: relay.EventID(fmt.Sprint("i", n)), Instance: "home", Chat: "@ann", Placeholder: true, Sessions: []relay.SessionKey{annsKey},
				}, fmt.Sprint("tok", n))
			}
			for range 4 {
				s := sits(h, relay.DefaultTenant, "home", r.bot)
				var wg sync.WaitGroup
				for n := range 40 {
					wg.Go(func() {
						text := fmt.Sprint(seed, "-", n, "-", p.roll(1<<30))
						switch send := (relay.Send{Chat: "@ann", Content: text}); n % 3 {
						case 0:
							send.ReplyTo = relay.MessageID(fmt.Sprint("i", n%6))
							_, _, _ = h.out.Capabilities.Respond(t.Context(), "home", p, send)
						case 1:
							_, _, _ = h.out.Capabilities.Respond(t.Context(), "home", p, send)
						default:
							_, _ = act(t.Context(), s, relay.Request{Action: relay.FollowUp{Session: annsKey, Kind: slashKind, Content: text}})
						}
					})
				}
				wg.Wait()
				h = New(db, nil, &bus.Local{}, []platforms.Bot{p}, Options{Seal: plainSeal{}})
			}
			if len(p.lost) != 0 || p.sent < 20 {
				t.Errorf("seed %d: of %d answers these were replaced: %q", seed, p.sent, p.lost)
			}
		})
	}
}

// TestACapabilityIsFoundByEveryKey that gateways may compute for its event.
func TestACapabilityIsFoundByEveryKey(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.command("ann", "i1", "/ask", "tok1", true)
	s := sits(r.hub, relay.DefaultTenant, "home", r.bot)
	for _, key := range []relay.SessionKey{annsKey, "agent:main:relay:dm:@ann"} {
		if _, err := act(t.Context(), s, relay.Request{Action: relay.FollowUp{Session: key, Kind: slashKind, Content: string(key)}}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if len(p.log()) != 2 {
		t.Errorf("the platform did %q", p.log())
	}
}

// TestTwoTenantsWithOneSessionKey: each answers through its own capability, and neither through the other's.
func TestTwoTenantsWithOneSessionKey(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	for _, name := range []relay.InstanceID{"theirs", "empty"} {
		i := store.Instance{ID: name, Tenant: "others", CreatedAt: time.Now()}
		must.Succeed(t, r.db.Enroll(t.Context(), nil, store.Gateway{ID: relay.GatewayID(name), Instance: i.ID, Tenant: "others", CreatedAt: time.Now()}, i))
		must.Succeed(t, r.db.Bind(t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "ann", Instance: name, Tenant: "others", BoundAt: time.Now()}))
	}
	for i, tenant := range map[relay.InstanceID]relay.TenantID{"home": relay.DefaultTenant, "theirs": "others"} {
		r.give(capability.Record{
			Event: relay.EventID("of " + i), Tenant: tenant, Instance: i, Chat: "@ann", Sessions: []relay.SessionKey{annsKey},
		}, string(i))
	}
	for i, want := range map[relay.InstanceID][2]string{"home": {"default", "home"}, "theirs": {"others", "theirs"}, "empty": {"others", ""}} {
		before := len(p.log())
		s := sits(r.hub, relay.TenantID(want[0]), i, r.bot)
		if want[0] == "default" {
			s = sits(r.hub, relay.DefaultTenant, i, r.bot)
		}
		_, err := act(t.Context(), s, relay.Request{Action: relay.FollowUp{Session: annsKey, Kind: slashKind, Content: "x"}})
		did := p.log()[before:]
		if want[1] == "" && (err == nil || len(did) != 0) || want[1] != "" && (err != nil || len(did) != 1 || !strings.Contains(did[0], "respond "+want[1])) {
			t.Errorf("%s: %v, the platform did %q", i, err, did)
		}
	}
	// The same instance name with another tenant's credential finds nothing.
	s := sits(r.hub, "others", "home", r.bot)
	if _, err := act(t.Context(), s, relay.Request{Action: relay.FollowUp{Session: annsKey, Kind: slashKind, Content: "x"}}); err == nil {
		t.Error("another tenant used it")
	}
}

// counted notes which questions are put to the database.
type counted struct {
	facts.Stored
	asked []string
}

func (c *counted) Bindings(ctx context.Context, f store.BindingFilter) ([]store.Binding, error) {
	c.asked = append(c.asked, "bindings")
	return c.Stored.Bindings(ctx, f)
}

func (c *counted) Grants(ctx context.Context, f store.GrantFilter) ([]store.Grant, error) {
	c.asked = append(c.asked, "grants")
	return c.Stored.Grants(ctx, f)
}

func (c *counted) Conversations(ctx context.Context, f store.ConversationFilter) ([]store.Conversation, error) {
	c.asked = append(c.asked, "conversations")
	return c.Stored.Conversations(ctx, f)
}

func (c *counted) CurrentChat(ctx context.Context, p relay.PlatformID, chat relay.ChatID) (relay.ChatID, error) {
	c.asked = append(c.asked, "chat")
	return c.Stored.CurrentChat(ctx, p, chat)
}

// TestAFollowUpIsDeclinedInTheSameWords whatever is in its way, and after the same questions where there is no
// capability, whyever: a gateway cannot tell one reason from another, nor what others hold.
func TestAFollowUpIsDeclinedInTheSameWords(t *testing.T) {
	t.Parallel()
	const want = `{"type":"outbound_result","requestId":"r","result":{"success":false,"error":"follow_up declined: no capability for this session"}}`
	ask := relay.FollowUp{Session: "s", Kind: slashKind, Content: "x"}
	mine := capability.Record{Event: "i1", Instance: "home", Chat: "@ann", Sessions: []relay.SessionKey{"s"}}
	for name, tc := range map[string]struct {
		give    func(r *rig, p *responder) // nil: mine
		ask     relay.FollowUp             // zero: ask
		request relay.Request
		without bool // there is none for the gateway
	}{
		"there is none": {give: func(*rig, *responder) {}, without: true},
		"it has expired": {give: func(r *rig, _ *responder) {
			c := mine
			c.ExpiresAt = time.Now().Add(-time.Second)
			r.give(c, "t")
		}, without: true},
		"another instance's": {give: func(r *rig, _ *responder) {
			c := mine
			c.Instance = "kids"
			r.give(c, "t")
		}, without: true},
		"another tenant's": {give: func(r *rig, _ *responder) {
			c := mine
			c.Tenant = "others"
			r.give(c, "t")
		}, without: true},
		"it waits for a verdict": {give: func(r *rig, _ *responder) {
			c := mine
			c.Undecided = true
			r.give(c, "t")
		}, without: true},
		"another session's": {ask: relay.FollowUp{Session: "S", Kind: slashKind}, without: true},
		"another kind":      {ask: relay.FollowUp{Session: "s", Kind: "k"}, without: true},
		"no session": {give: func(r *rig, _ *responder) {
			c := mine
			c.Sessions = []relay.SessionKey{""}
			r.give(c, "t")
		}, ask: relay.FollowUp{Kind: slashKind}, without: true},
		"no kind":            {ask: relay.FollowUp{Session: "s"}, without: true},
		"neither":            {ask: relay.FollowUp{Content: "x"}, without: true},
		"another's platform": {ask: relay.FollowUp{Session: "S", Kind: slashKind}, request: relay.Request{Platform: "owl", Bot: "9"}, without: true},
		"the bot is gone":    {give: func(r *rig, _ *responder) { r.give(mine, "t"); r.hub.hosted.set(nil) }, without: true},
		"no longer honoured": {give: func(r *rig, p *responder) { r.give(mine, "t"); p.gone = true }},
		"no longer allowed": {give: func(r *rig, _ *responder) {
			r.give(mine, "t")
			must.Succeed(r.t, r.db.Unbind(r.t.Context(), nil, "home", local.LoopbackID, "ann"))
		}},
		"it does not open": {give: func(r *rig, _ *responder) { r.hub.opts.Seal = plainSeal{"another"}; r.give(mine, "t") }},
	} {
		t.Run(name, func(t *testing.T) {
			p := &responder{}
			p.Loopback = local.NewLoopback(local.NewNetwork(), nil)
			db := storetest.Open(t, t.TempDir(), store.Options{})
			h := New(db, nil, &bus.Local{}, []platforms.Bot{p}, Options{Seal: plainSeal{}})
			r := &rig{t: t, db: db, bot: p.ID(), hub: h}
			r.enroll("home", "ann")
			r.enroll("kids", "ann")
			if tc.give == nil {
				tc.give = func(r *rig, _ *responder) { r.give(mine, "t") }
			}
			tc.give(r, p)
			questions := &counted{Stored: db}
			h.facts.Stored = questions
			s := sits(h, relay.DefaultTenant, "home", r.bot)
			tc.request.Action = tc.ask
			if tc.ask == (relay.FollowUp{}) {
				tc.request.Action = ask
			}
			a := s.Action(t.Context(), tc.request)
			must.Succeed(t, a.Allow(t.Context()))
			_, err := a.Do(t.Context(), func() (context.Context, relay.Request, bool) { return t.Context(), tc.request, true })
			got, err := wire.Encode(wire.OutboundResult{ID: "r", Err: relay.Explain(err)})
			if err != nil || string(bytes.TrimSpace(got)) != want {
				t.Errorf("the gateway reads %s, want %s (%v)", got, want, err)
			}
			if wantAsked := "[chat chat bindings conversations grants]"; tc.without && fmt.Sprint(questions.asked) != wantAsked {
				t.Errorf("the database was asked for %q, want %s", questions.asked, wantAsked)
			}
			if len(p.log()) != 0 {
				t.Errorf("the platform did %q", p.log())
			}
		})
	}
}

// TestAFollowUpCountsNoTags: platform and bot on its frame count for nothing.
func TestAFollowUpCountsNoTags(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	r.command("ann", "i1", "/ask", "tok1", true)
	g := r.dial("home")
	g.inbound()
	for _, tag := range []relay.Bot{{}, {Platform: "owl", ID: "9"}, {Platform: local.LoopbackID, ID: "9"}, {ID: "9"}} {
		res := g.do(relay.Request{Platform: tag.Platform, Bot: tag.ID, Action: relay.FollowUp{Session: annsKey, Kind: slashKind, Content: "x"}})
		if res.Err != nil {
			t.Errorf("tagged %v: %+v", tag, res.Err)
		}
	}
	if len(p.log()) != 4 {
		t.Errorf("the platform did %q", p.log())
	}
}

// TestWhatAnotherKeySealedIsDropped at the start, with one warning that counts it.
func TestWhatAnotherKeySealedIsDropped(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	for n := range 3 {
		r.command("ann", fmt.Sprint("i", n), "/ask", fmt.Sprint("tok", n), true)
	}
	var log bytes.Buffer
	h := New(r.db, r.desk, r.bus, []platforms.Bot{p}, Options{Seal: plainSeal{"new"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		must.Succeed(t, h.out.Capabilities.DropUseless(t.Context()))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "capabilities=3") || strings.Contains(log.String(), "tok") {
		t.Errorf("the log says %s", log.String())
	}
	if r.holds("home", "i1") {
		t.Error("it is kept")
	}
}

// TestAnUndecidedCapabilityOutlivesARestart, and is of use once its event is decided about, or dropped.
func TestAnUndecidedCapabilityOutlivesARestart(t *testing.T) {
	for _, sees := range []bool{true, false} {
		t.Run(fmt.Sprint("its owner sees the chat: ", sees), func(t *testing.T) {
			db := storetest.Open(t, t.TempDir(), store.Options{})
			p := &responder{}
			r := &rig{t: t, db: db, net: local.NewNetwork(), bus: &bus.Local{}}
			p.Loopback = local.NewLoopback(r.net, nil)
			r.bot = p.ID()
			r.enroll("home", "ann")
			r.claim("home", "garden")
			r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			if sees {
				r.net.Join("garden", "ann")
			}
			p.think("tok1")
			before := r.restarted(p, plainSeal{}) // the process that is killed before the verdict
			r.hub = r.restarted(p, plainSeal{})
			must.Succeed(t, before.in.Inbox(r.bot).Accept(t.Context(), slash(r.bot, "eve", "garden", "i1", "/ask", "tok1")))
			stored, ok, err := r.db.Capabilities.In(t.Context(), "home", r.bot, "i1")
			if err != nil || !ok || !stored.Undecided || r.holds("home", "i1") {
				t.Fatalf("stored %+v, %v, %v; of use: %v", stored, ok, err, r.holds("home", "i1"))
			}
			must.Succeed(t, r.hub.in.Judge(t.Context(), relay.Chat{Bot: r.bot, ID: "garden"}))
			if !sees {
				if r.hub.tasks.Waiting() != 1 {
					t.Fatal("nobody is to take the placeholder away")
				}
				r.hub.tasks.Step(t.Context())
				if want := []string{"discard tok1"}; r.hub.tasks.Waiting() != 0 || !slices.Equal(p.log(), want) || r.holds("home", "i1") {
					t.Errorf("the platform did %q, want %q (%v)", p.log(), want, err)
				}
				return
			}
			if !r.holds("home", "i1") {
				t.Fatal("it is of no use after the verdict")
			}
			if _, done, err := r.hub.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "garden", Content: "yes"}); !done || err != nil {
				t.Error(done, err)
			}
			if want := []string{"respond tok1 first=true: yes"}; !slices.Equal(p.log(), want) {
				t.Errorf("the platform did %q, want %q", p.log(), want)
			}
		})
	}
}

// TestCapabilitiesCostNoCommits: an interaction costs that of a message, answers none, and 256 that idle none.
func TestCapabilitiesCostNoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t, t.TempDir(), store.Options{})
		p := &responder{}
		p.Loopback = local.NewLoopback(local.NewNetwork(), nil)
		r := &rig{t: t, db: db, bot: p.ID()}
		r.hub = New(db, nil, &bus.Local{}, []platforms.Bot{p}, Options{Seal: plainSeal{}})
		r.enroll("home", "ann")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { _ = r.hub.Run(ctx) })
		time.Sleep(time.Second) // the first sweep
		commits := r.db.Stats().Commits
		for n := range 256 {
			r.command("ann", fmt.Sprint("i", n), "/ask", fmt.Sprint("tok", n), true)
		}
		if n := r.db.Stats().Commits - commits; n != 256 {
			t.Errorf("%d commits for 256 interactions", n)
		}
		commits = r.db.Stats().Commits
		for n := range 3 {
			if _, _, err := r.hub.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "@ann", Content: fmt.Sprint(n)}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(50 * time.Minute) // they expire meanwhile
		if n := r.db.Stats().Commits - commits; n != 0 {
			t.Errorf("%d commits while they idled", n)
		}
		time.Sleep(15 * time.Minute)
		if n := r.db.Stats().Commits - commits; n != 1 {
			t.Errorf("%d commits with the sweep, want 1", n)
		}
	})
}
