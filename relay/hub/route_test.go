package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// threaded is a network where threads are chats: "garden/…" lie in garden, those of "yard/" in yard.
type threaded struct {
	responder
	bot relay.Bot

	mu    sync.Mutex // guards asked
	asked []relay.ThreadID
}

func (p *threaded) ID() relay.Bot { return p.bot }

func (p *threaded) Thread(_ context.Context, id relay.ThreadID) (relay.Place, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, id)
	parent, ok := map[relay.ThreadID]relay.ChatID{"garden/open": "garden", "garden/closed": "garden", "yard/open": "yard"}[id]
	if !ok {
		return relay.Place{}, false, errors.New("no such thread")
	}
	return relay.Place{Platform: p.bot.Platform, Chat: relay.ChatID(id), Parent: parent}, id != "garden/closed", nil
}

func (p *threaded) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	place, _, err := p.Thread(context.Background(), relay.ThreadID(chat))
	return place, err
}

func newThreadedRig(t *testing.T) (*rig, *threaded) {
	t.Helper()
	p := &threaded{}
	return newRigWith(t, func(l *local.Loopback) platforms.Bot { p.Loopback, p.bot = l, l.ID(); return p }), p
}

// talked makes ann have said something in the chat that home received.
func (r *rig) talked(chat relay.ChatID) {
	r.t.Helper()
	r.say(local.Message{User: "ann", Chat: chat, Text: "hi"})
}

// Issue 9, point 10: text for a thread landed in its parent, with success.
func TestTheThreadInTheMetadataDecides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(r *rig)
		chat    relay.ChatID
		thread  relay.ThreadID
		want    relay.ChatID // where the text is; empty: declined
	}{
		"none":                               {func(r *rig) { r.talked("garden") }, "garden", "", "garden"},
		"the chat itself":                    {func(r *rig) { r.talked("garden") }, "garden", "garden", "garden"},
		"one of a chat that was talked in":   {func(r *rig) { r.talked("garden") }, "garden", "garden/open", "garden/open"},
		"one that not everybody sees":        {func(r *rig) { r.talked("garden") }, "garden", "garden/closed", ""},
		"a closed one that was talked in":    {func(r *rig) { r.talked("garden/closed") }, "garden", "garden/closed", "garden/closed"},
		"a closed one of a granted chat":     {func(r *rig) { r.claim("home", "garden") }, "garden", "garden/closed", "garden/closed"},
		"of another chat":                    {func(r *rig) { r.talked("garden") }, "garden", "yard/open", ""},
		"of another chat, with leave there":  {func(r *rig) { r.talked("garden"); r.talked("yard/open") }, "garden", "yard/open", ""},
		"one nobody knows":                   {func(r *rig) { r.talked("garden") }, "garden", "garden/none", ""},
		"a chat that is none":                {func(r *rig) { r.talked("garden"); r.talked("yard") }, "garden", "yard", ""},
		"of a chat nothing was said in":      {func(*rig) {}, "garden", "garden/open", ""},
		"of a thread, though it is a sister": {func(r *rig) { r.talked("garden/open") }, "garden/open", "garden/closed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newThreadedRig(t)
			r.enroll("home", "ann")
			tc.prepare(r)
			g := r.dial("home")
			drain(g, r, "home")
			meta := relay.Metadata{ThreadID: tc.thread}
			sent := g.do(relay.Request{Action: relay.Send{Chat: tc.chat, Content: "x", Meta: meta}}).Result.MessageID
			if sent == "" {
				sent = "1" // nothing was
			}
			for _, a := range []relay.Action{
				relay.Send{Chat: tc.chat, Content: "x", Meta: meta}, relay.Typing{Chat: tc.chat, Meta: meta},
				relay.React{Chat: tc.chat, Message: sent, Emoji: "x", Meta: meta}, relay.Edit{Chat: tc.chat, Message: sent, Content: "y", Meta: meta},
				relay.Delete{Chat: tc.chat, Message: sent, Meta: meta},
			} {
				res := g.do(relay.Request{Action: a})
				if declined := res.Err != nil && res.Err.Code == relay.CodeEgressDeclined; declined != (tc.want == "") {
					t.Errorf("%s = %+v", a.Op(), res.Err)
				}
			}
			for _, act := range r.net.Acts() {
				if act.Chat != tc.want {
					t.Errorf("%s went to %q, want %q", act.Op, act.Chat, tc.want)
				}
			}
			if acts := r.net.Acts(); tc.want != "" && len(acts) == 0 {
				t.Error("nothing was done")
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if name == "of a chat nothing was said in" && len(p.asked) != 0 {
				t.Errorf("the platform was asked for %q", p.asked)
			}
		})
	}
}

// drain takes what waits for the gateway.
func drain(g *gateway, r *rig, name string) {
	for range r.texts(name) {
		in := g.inbound()
		g.send(wire.InboundAck{Buffer: in.Buffer})
	}
}

func TestAFollowUpForAThreadGoesThere(t *testing.T) {
	for name, tc := range map[string]struct {
		thread relay.ThreadID
		want   relay.ChatID // empty: declined
	}{
		"of the chat":      {"garden/open", "garden/open"},
		"of another":       {"yard/open", ""},
		"the chat's own":   {"garden", "-"},
		"none in the text": {"", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newThreadedRig(t)
			r.enroll("home", "ann")
			r.talked("garden")
			r.give(capability.Record{Event: "i1", Instance: "home", Chat: "garden", Sessions: []relay.SessionKey{"s"}}, "tok1")
			g := r.dial("home")
			g.send(wire.InboundAck{Buffer: g.inbound().Buffer}) // the command waits for the end of that turn
			res := g.do(relay.Request{Action: relay.FollowUp{Session: "s", Kind: slashKind, Content: "x", Meta: relay.Metadata{ThreadID: tc.thread}}})
			acts := r.net.Acts()
			switch tc.want {
			case "":
				if res.Err == nil || res.Err.Public != "follow_up declined: no capability for this session" || res.Err.Code != "" || len(acts) != 0 {
					t.Errorf("follow_up = %+v, acts %+v", res.Err, acts)
				}
			case "-":
				if did := strings.Join(p.log(), " "); res.Err != nil || strings.Count(did, "respond") != 1 || len(acts) != 0 {
					t.Errorf("follow_up = %+v, the platform did %q", res.Err, p.log())
				}
			default:
				if res.Err != nil || len(acts) != 1 || acts[0].Chat != tc.want {
					t.Errorf("follow_up = %+v, acts %+v", res.Err, acts)
				}
			}
		})
	}
}

// Two spellings of one chat had two lines, and what was sent through them overtook each other.
func TestALineIsOfTheBotAndTheChat(t *testing.T) {
	r, p := newThreadedRig(t)
	second := &threaded{bot: relay.Bot{Platform: "parrot", ID: "2"}}
	second.Loopback = p.Loopback
	h := New(r.db, r.desk, r.bus, []platforms.Bot{p, second}, Options{}) // does not run
	r.enroll("home", "ann")
	r.talked("garden")
	must.Succeed(t, r.db.Claim(t.Context(), nil, store.Grant{Platform: "parrot", Chat: "cage", Instance: "home", Tenant: relay.DefaultTenant, GrantedAt: time.Now()}))
	for _, chat := range []relay.ChatID{"garden", "garden/open"} {
		r.give(capability.Record{Event: relay.EventID(chat), Instance: "home", Chat: chat, Sessions: []relay.SessionKey{relay.SessionKey(chat)}}, "tok1")
	}
	s := h.newAttachment(nil, session.Peer{Tenant: relay.DefaultTenant, Instance: "home"})
	s.identities = []relay.Bot{r.bot, second.bot, {Platform: relay.RelayPlatform}}
	garden := relay.Chat{Bot: r.bot, ID: "garden"}
	open := relay.Chat{Bot: r.bot, ID: "garden/open"}
	in := func(chat relay.ChatID, thread relay.ThreadID) relay.Action {
		return relay.Send{Chat: chat, Meta: relay.Metadata{ThreadID: thread}}
	}
	for name, tc := range map[string]struct {
		r    relay.Request
		want relay.Chat
	}{
		"untagged":                 {relay.Request{Action: in("garden", "")}, garden},
		"with a platform":          {relay.Request{Platform: r.bot.Platform, Action: in("garden", "")}, garden},
		"with both":                {relay.Request{Platform: r.bot.Platform, Bot: r.bot.ID, Action: in("garden", "")}, garden},
		"with a bot":               {relay.Request{Bot: r.bot.ID, Action: in("garden", "")}, garden},
		"as relay":                 {relay.Request{Platform: relay.RelayPlatform, Action: in("garden", "")}, garden},
		"another action":           {relay.Request{Action: relay.Edit{Chat: "garden", Message: "1"}}, garden},
		"a look-up":                {relay.Request{Action: relay.GetChatInfo{Chat: "garden"}}, garden},
		"a follow-up":              {relay.Request{Action: relay.FollowUp{Session: "garden", Kind: slashKind}}, garden},
		"a thread":                 {relay.Request{Action: in("garden", "garden/open")}, open},
		"a thread as a chat":       {relay.Request{Platform: r.bot.Platform, Action: in("garden/open", "")}, open},
		"a thread as both":         {relay.Request{Platform: r.bot.Platform, Action: in("garden/open", "garden/open")}, open},
		"a thread's follow-up":     {relay.Request{Action: relay.FollowUp{Session: "garden/open", Kind: slashKind}}, open},
		"a follow-up for a thread": {relay.Request{Action: relay.FollowUp{Session: "garden", Kind: slashKind, Meta: relay.Metadata{ThreadID: "garden/open"}}}, open},
		"the other bot's":          {relay.Request{Platform: "parrot", Action: in("garden", "")}, relay.Chat{Bot: second.bot, ID: "garden"}},
		"the other's, untagged":    {relay.Request{Action: in("cage", "")}, relay.Chat{Bot: second.bot, ID: "cage"}},
		"nobody's, untagged":       {relay.Request{Action: in("street", "")}, relay.Chat{ID: "street"}},
		"a platform of nobody":     {relay.Request{Platform: "owl", Action: in("garden", "")}, relay.Chat{Bot: relay.Bot{Platform: "owl"}, ID: "garden"}},
		"a session of nobody":      {relay.Request{Action: relay.FollowUp{Session: "x", Kind: slashKind}}, relay.Chat{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.Action(t.Context(), tc.r).Line(); got != tc.want {
				t.Errorf("Line = %+v, want %+v", got, tc.want)
			}
		})
	}
	if p.mu.Lock(); slices.ContainsFunc(p.asked, func(relay.ThreadID) bool { return true }) {
		t.Errorf("the reader waited for the platform: it was asked for %q", p.asked)
	}
	p.mu.Unlock()
}
