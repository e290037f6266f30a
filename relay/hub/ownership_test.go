package hub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// scribe is a stage that can do everything to messages and threads, and does it whoever wrote them,
// as a bot that is an administrator can.
type scribe struct {
	*stage
	n       int
	touched []relay.MessageID
	renamed []relay.ThreadID
	made    bool                     // the last rename was of a thread that the hub knows to be made here
	authors map[relay.MessageID]bool // whether the bot wrote it; nil: the network does not tell
	asked   int
	partly  bool  // the next send stands in part
	single  bool  // the bot has one reaction on a message
	fails   error // of reactions
}

func (s *scribe) Send(_ context.Context, a relay.Send) (relay.Result, error) {
	s.n++
	id := relay.MessageID(fmt.Sprint("m", s.n))
	if s.partly {
		s.partly = false
		return relay.Result{}, &relay.ActionError{Public: "network: broken", MessageIDs: []relay.MessageID{id}}
	}
	return relay.Result{MessageID: id, MessageIDs: []relay.MessageID{id + "a", id}}, nil
}

func (s *scribe) Edit(_ context.Context, a relay.Edit) (relay.Result, error) {
	s.touched = append(s.touched, a.Message)
	return relay.Result{MessageID: a.Message}, nil
}

func (s *scribe) Delete(_ context.Context, a relay.Delete) (relay.Result, error) {
	s.touched = append(s.touched, a.Message)
	return relay.Result{}, nil
}

func (s *scribe) React(_ context.Context, a relay.React) (relay.Result, error) {
	if s.fails != nil {
		return relay.Result{}, s.fails
	}
	s.touched = append(s.touched, a.Message)
	return relay.Result{}, nil
}

func (s *scribe) Reaction(a relay.React) relay.Reaction {
	r := relay.Reaction{Chat: relay.Chat{Bot: s.bot, ID: a.Chat}, Message: a.Message, Name: a.Emoji}
	if s.single {
		r.Name = ""
	}
	return r
}

func (s *scribe) CreateThread(_ context.Context, a relay.ThreadCreate) (relay.Result, error) {
	return relay.Result{ThreadID: relay.ThreadID("in " + a.Chat)}, nil
}

func (s *scribe) RenameThread(_ context.Context, a relay.ThreadRename) (relay.Result, error) {
	s.renamed, s.made = append(s.renamed, a.Thread), a.Made
	return relay.Result{ThreadID: a.Thread}, nil
}

// threading is a scribe on a network whose threads are chats.
type threading struct{ *scribe }

func (p threading) Thread(ctx context.Context, id relay.ThreadID) (relay.Place, bool, error) {
	return threadOf(ctx, p.stage, id)
}

func threadOf(ctx context.Context, s *stage, id relay.ThreadID) (relay.Place, bool, error) {
	at, err := s.Locate(ctx, relay.ChatID(id))
	return at, true, err
}

// knowing is a scribe whose network tells the author of a message.
type knowing struct{ *scribe }

func (k knowing) IsOwn(_ context.Context, _ relay.ChatID, m relay.MessageID) (bool, error) {
	k.asked++
	own, known := k.authors[m]
	if !known {
		return false, errNobodyKnows
	}
	return own, nil
}

// moderating is a scribe whose network does not tell, but whose events go by their messages.
type moderating struct{ *scribe }

func (moderating) MessageEvent(_ relay.ChatID, m relay.MessageID) relay.EventID {
	return relay.EventID("e" + strings.TrimPrefix(string(m), "said"))
}

// parlour is a hub with three instances of three tenants: home holds "hall"; guest's person ann and
// other's person bob write in "hall" and in "yard", which nobody holds. ann has direct messages.
type parlour struct {
	t        *testing.T
	hub      *Hub
	db       *store.DB
	path     string
	scribe   *scribe
	bot      platforms.Bot
	sessions map[relay.InstanceID]*attachment
	gone     map[relay.UserID]bool // that see no chat any more
	events   int
}

func newParlour(t *testing.T, tells, moderates bool) *parlour {
	p := &parlour{t: t, path: filepath.Join(t.TempDir(), "connector.db"), gone: make(map[relay.UserID]bool)}
	p.scribe = &scribe{stage: &stage{
		bot:  relay.Bot{Platform: tell, ID: "1"},
		sees: func(_ relay.Place, u relay.UserID) (bool, error) { return !p.gone[u], nil },
		locates: func(c relay.ChatID) (relay.Place, error) {
			at := relay.Place{Platform: tell, Scope: "house", Chat: c}
			if c == "in hall" || c == "in yard" {
				at.Parent = c[len("in "):]
			}
			return at, nil
		},
		whose: func(c relay.ChatID) (relay.UserID, bool) { return "ann", c == "@ann" },
	}}
	p.bot = p.scribe
	switch {
	case tells:
		p.bot = knowing{p.scribe}
	case moderates:
		p.bot = moderating{p.scribe}
	}
	p.open()
	t.Cleanup(func() {
		if err := p.db.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	for i, u := range map[relay.InstanceID]relay.UserID{"home": "zoe", "guest": "ann", "other": "bob"} {
		err := errors.Join(
			p.db.Enroll(ctx, nil, store.Gateway{ID: relay.GatewayID(i)}, store.Instance{ID: i, Tenant: relay.TenantID(i)}),
			p.db.Bind(ctx, nil, store.Binding{Platform: tell, User: u, Instance: i}),
		)
		must.Succeed(t, err)
	}
	must.Succeed(t, p.db.Claim(ctx, nil, store.Grant{Platform: tell, Scope: "house", Chat: "hall", Instance: "home"}))
	for _, c := range []relay.ChatID{"hall", "yard"} {
		p.hear("ann", c)
		p.hear("bob", c)
	}
	p.hear("ann", "@ann")
	return p
}

func (p *parlour) open() {
	p.t.Helper()
	db, err := store.Open(p.path, store.Options{})
	must.Succeed(p.t, err)
	p.db, p.sessions = db, make(map[relay.InstanceID]*attachment)
	p.hub = New(db, link.NewDesk(db, plainMAC{}, time.Now), &bus.Local{}, []platforms.Bot{p.bot}, Options{})
	for _, i := range []relay.InstanceID{"home", "guest", "other"} {
		s := p.hub.newAttachment(nil, session.Peer{Gateway: relay.GatewayID(i), Instance: i, Tenant: relay.TenantID(i)})
		s.say(p.scribe.bot)
		s.markNewer() // its age is not what this is about
		s.fetches.Store(true)
		must.Succeed(p.t, p.hub.enter(s))
		p.sessions[i] = s
	}
}

// hear hands in what somebody writes.
func (p *parlour) hear(u relay.UserID, c relay.ChatID) {
	p.t.Helper()
	p.events++
	ev := relay.Event{
		ID: relay.EventID(fmt.Sprint("e", p.events)), MessageID: relay.MessageID(fmt.Sprint("said", p.events)), Bot: p.scribe.bot,
		Type: relay.TypeText, Text: "hello", Traits: relay.Traits{Addressed: true},
		Source: relay.Source{Platform: tell, Scope: "house", ChatID: c, ChatType: relay.ChatGroup, UserID: u},
	}
	if c == "@ann" {
		ev.Source.ChatType, ev.Source.Scope = relay.ChatDM, ""
	}
	must.Succeed(p.t, p.hub.in.Inbox(p.scribe.bot).Accept(p.t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	judgeDue(p.t, p.hub)
}

func (p *parlour) do(i relay.InstanceID, a relay.Action) (relay.Result, error) {
	return act(p.t.Context(), p.sessions[i], relay.Request{Action: a})
}

// send posts as an instance and returns the message.
func (p *parlour) send(i relay.InstanceID, c relay.ChatID) relay.MessageID {
	p.t.Helper()
	res, err := p.do(i, relay.Send{Chat: c, Content: "hello"})
	must.Succeed(p.t, err)
	return res.MessageID
}

// may does a for each instance and compares who may.
func (p *parlour) may(a relay.Action, want ...relay.InstanceID) {
	p.t.Helper()
	for _, i := range []relay.InstanceID{"home", "guest", "other"} {
		_, err := p.do(i, a)
		allowed := false
		for _, w := range want {
			allowed = allowed || w == i
		}
		ae := relay.Explain(err)
		if (err == nil) != allowed || err != nil && (ae.Code != relay.CodeEgressDeclined || ae.Outcome != relay.NotSent) {
			p.t.Errorf("%s: %T %+v: %v, want %v", i, a, a, err, allowed)
		}
	}
}

func TestAnAgentTouchesOnlyWhatItSaid(t *testing.T) {
	for _, tells := range []bool{false, true} {
		t.Run(fmt.Sprint("the network tells authors: ", tells), func(t *testing.T) {
			p := newParlour(t, tells, false)
			p.scribe.authors = map[relay.MessageID]bool{"said1": false, "old": true}
			for _, c := range []relay.ChatID{"hall", "yard"} {
				m := p.send("guest", c)
				for _, id := range []relay.MessageID{m, m + "a"} { // every part of it
					p.may(relay.Edit{Chat: c, Message: id, Content: "changed"}, "guest")
					p.may(relay.Delete{Chat: c, Message: id}, "guest")
				}
				everybody := []relay.InstanceID{"home", "guest", "other"}
				if c == "yard" {
					everybody = everybody[1:] // home has nothing there
				}
				p.may(relay.React{Chat: c, Message: m, Emoji: "👍"}, everybody...)
				p.may(relay.Edit{Chat: c, Message: "old", Content: "changed"}) // nobody remembers whose it is
				p.may(relay.Delete{Chat: c, Message: "old"})
			}
			var holder []relay.InstanceID
			if tells {
				holder = append(holder, "home")
			}
			p.may(relay.Delete{Chat: "hall", Message: "said1"}, holder...) // ann's own message
			p.may(relay.Delete{Chat: "yard", Message: "said1"})
			p.may(relay.Edit{Chat: "@ann", Message: "old", Content: "changed"}, "guest") // where nobody else may act
			p.may(relay.Delete{Chat: "@ann", Message: "old"}, "guest")
		})
	}
}

// TestTheHolderDeletesWhatPeopleWrote, also where others may act, and nobody tells whose a message is.
func TestTheHolderDeletesWhatPeopleWrote(t *testing.T) {
	p := newParlour(t, false, true)
	m := p.send("guest", "hall")
	p.may(relay.Delete{Chat: "hall", Message: "said1"}, "home") // ann's own message
	p.may(relay.Delete{Chat: "hall", Message: "said9"})         // nobody knows of it
	p.may(relay.Delete{Chat: "hall", Message: m}, "guest")
}

func TestWhatStandsInPartIsRemembered(t *testing.T) {
	p := newParlour(t, false, false)
	p.scribe.partly = true
	if _, err := p.do("guest", relay.Send{Chat: "yard", Content: "hello"}); err == nil {
		t.Fatal("the send did not break")
	}
	p.may(relay.Delete{Chat: "yard", Message: "m1"}, "guest")
}

// TestWhoSentAMessageOutlivesARestart, without a commit of its own, for two days.
func TestWhoSentAMessageOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		before := p.db.Stats().Commits
		m := p.send("guest", "yard")
		p.may(relay.Delete{Chat: "yard", Message: m}, "guest")
		if n := p.db.Stats().Commits - before; n != 0 {
			t.Errorf("a send took %d commits, want 0", n)
		}
		must.Succeed(t, p.db.Close())
		p.open()
		p.may(relay.Delete{Chat: "yard", Message: m}, "guest")
		time.Sleep(48*time.Hour + time.Second)
		p.may(relay.Delete{Chat: "yard", Message: m})
	})
}

// TestTopics: a topic is no chat, and its number may be that of a stranger's.
func TestTopics(t *testing.T) {
	p := newParlour(t, false, false)
	rename := relay.ThreadRename{Chat: "yard", Thread: "in yard", Name: "new", OnlyIfConnectorCreated: true}
	p.may(rename)
	if _, err := p.do("guest", relay.ThreadCreate{Chat: "yard", Name: "topic"}); err != nil {
		t.Fatal(err)
	}
	p.may(relay.Send{Chat: "in yard", Content: "hello"}) // not guest, who made a topic of that number
	p.may(rename, "guest")
	if !p.scribe.made {
		t.Error("the network is not told that the topic is ours")
	}
	rename.Thread = "another"
	p.may(rename)
	p.may(relay.ThreadRename{Chat: "hall", Thread: "in yard", Name: "new", OnlyIfConnectorCreated: true}, "home") // the holder's
	if p.scribe.made {
		t.Error("a topic of another chat counts as ours")
	}
	must.Succeed(t, p.db.Close())
	p.open()
	if _, err := p.do("guest", relay.ThreadRename{Chat: "yard", Thread: "in yard", Name: "new", OnlyIfConnectorCreated: true}); err != nil || !p.scribe.made {
		t.Errorf("after a restart: %v, ours: %t", err, p.scribe.made)
	}
}

func TestThreads(t *testing.T) {
	p := newParlour(t, false, false)
	p.hub.Bots()[0] = threading{p.scribe}
	p.may(relay.Send{Chat: "in yard", Content: "hello"})
	p.may(relay.ThreadRename{Chat: "in yard", Thread: "in yard", Name: "new"})
	if _, err := p.do("guest", relay.ThreadCreate{Chat: "yard", Name: "thread"}); err != nil {
		t.Fatal(err)
	}
	p.may(relay.Send{Chat: "in yard", Content: "hello"}, "guest")
	p.may(relay.ThreadRename{Chat: "yard", Thread: "in yard", Name: "new"}, "guest") // not other, who may write in the yard
	p.may(relay.ThreadRename{Chat: "in yard", Thread: "in yard", Name: "new"}, "guest")
	p.may(relay.ThreadRename{Chat: "hall", Thread: "in hall", Name: "new"}, "home") // the holder's
	if _, err := p.do("guest", relay.ThreadCreate{Chat: "hall", Name: "thread"}); err != nil {
		t.Fatal(err)
	}
	p.may(relay.ThreadRename{Chat: "hall", Thread: "in hall", Name: "new"}, "home", "guest")
	p.gone["ann"] = true
	p.hub.facts.Visible.Forget(p.scribe.bot, []platforms.RosterChange{{}})
	p.may(relay.Send{Chat: "in yard", Content: "hello"}) // the thread's reason is its parent's
}

// TestAConversationHoldsWhileItsPersonSeesTheChat: the agent of somebody who was thrown out writes no more.
func TestAConversationHoldsWhileItsPersonSeesTheChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		p.may(relay.Send{Chat: "yard", Content: "hello"}, "guest", "other")
		p.gone["ann"] = true
		p.may(relay.Send{Chat: "yard", Content: "hello"}, "guest", "other") // believed for a minute
		time.Sleep(visibility.Believed)
		p.may(relay.Send{Chat: "yard", Content: "hello"}, "other")
		p.may(relay.Send{Chat: "hall", Content: "hello"}, "home", "other") // a grant asks nobody
		p.may(relay.Send{Chat: "@ann", Content: "hello"}, "guest")
		p.gone["ann"] = false
		time.Sleep(visibility.Believed)
		p.may(relay.Send{Chat: "yard", Content: "hello"}, "guest", "other")
		p.scribe.sees = nil // the network does not say
		time.Sleep(visibility.Believed)
		p.may(relay.Send{Chat: "yard", Content: "hello"})
	})
}

// TestAMutedBotIsNoDecline: that nobody can be asked who sees the chat is worth trying again.
func TestAMutedBotIsNoDecline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		p.scribe.sees = func(relay.Place, relay.UserID) (bool, error) {
			return false, &platforms.MutedError{Until: time.Now().Add(7 * time.Second)}
		}
		time.Sleep(visibility.Believed)
		_, err := p.do("guest", relay.Send{Chat: "yard", Content: "hello"})
		if ae := relay.Explain(err); ae.Code != "" || ae.Outcome != relay.NotSent || ae.RetryAfter != 7*time.Second {
			t.Errorf("%+v, want not sent, in 7 s", ae)
		}
	})
}
