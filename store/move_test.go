package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestMoveChat(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	must(db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "old", Instance: "i1"}))
	must(db.Claim(ctx, nil, Grant{Platform: "loop", Scope: "s", Chat: "old", Instance: "i1"}))
	must(db.Claim(ctx, nil, Grant{Platform: "loop", Scope: "s", Chat: "new", Instance: "i2"})) // theirs stays
	must(db.Claim(ctx, nil, Grant{Platform: "away", Chat: "old", Instance: "i1"}))
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1", DMChat: "old"}))
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u2", Instance: "i1", DMChat: "else"}))
	scopes := func(ids ...relay.ChatID) map[relay.PlatformID]Relevance {
		return map[relay.PlatformID]Relevance{"loop": {FreeResponseScopes: ids}, "away": {FreeResponseScopes: []relay.ChatID{"old"}}}
	}
	must(db.UpdateInstance(ctx, nil, "i1", func(i *Instance) error { i.Relevance = scopes("a", "old"); return nil }))
	must(db.UpdateInstance(ctx, nil, "i2", func(i *Instance) error { i.Relevance = scopes("new", "old"); return nil }))
	in := func(id string, chat, parent relay.ChatID) relay.Event {
		e := event(id, 300)
		e.Source.ChatID, e.Source.ParentChatID = chat, parent
		return e
	}
	acceptOne(t, db, in("e1", "old", ""), "i1")
	thread := acceptFor(in("e2", "thread", "old"), "i1")
	thread.Items[0].To[0].Conversation.Parent = "old"
	_, err := db.Accept(ctx, thread)
	must(err)
	for i, e := range []relay.Event{in("e3", "old", ""), in("e4", "new", "")} { // the second is newer than what moves onto it
		c.add(2 * time.Hour)
		a := acceptFor(e, "i2")
		conv := &a.Items[0].To[0].Conversation
		if conv.By, conv.ByGrant = "", true; i == 0 {
			conv.By, conv.ByGrant = "u2", false
		}
		_, err := db.Accept(ctx, a)
		must(err)
	}

	must(db.MoveChat(ctx, Move{Platform: "loop", From: "old", To: "new"}))
	for range 2 { // and once more, which changes nothing
		gs, err := db.Grants(ctx, GrantFilter{})
		must(err)
		var got []string
		for _, g := range gs {
			got = append(got, fmt.Sprintf("%s/%s/%s=%s", g.Platform, g.Scope, g.Chat, g.Instance))
		}
		if want := []string{"away//old=i1", "loop//new=i1", "loop/s/new=i2"}; !cmp.Equal(got, want) {
			t.Errorf("grants: %s", cmp.Diff(want, got))
		}
		bs, err := db.Bindings(ctx, BindingFilter{Instance: "i1"})
		must(err)
		if bs[0].DMChat != "new" || bs[1].DMChat != "else" {
			t.Errorf("bindings: %+v", bs)
		}
		cs, err := db.Conversations(ctx, ConversationFilter{Instance: "i1"})
		must(err)
		if len(cs) != 2 || cs[0].Chat != "new" || cs[1].Chat != "thread" || cs[1].Parent != "new" {
			t.Errorf("conversations of i1: %+v", cs)
		}
		cs, err = db.Conversations(ctx, ConversationFilter{Instance: "i2"})
		must(err)
		if len(cs) != 1 || !cs[0].LastAt.Equal(c.now()) || cs[0].By != "u2" || !cs[0].ByGrant {
			t.Errorf("conversations of i2: %+v, want the newer one, with the reasons of both", cs)
		}
		i1, err := Only(db.Instances(ctx, "i1"))
		must(err)
		i2, err := Only(db.Instances(ctx, "i2"))
		must(err)
		if !cmp.Equal(i1.Relevance, scopes("a", "new")) || !cmp.Equal(i2.Relevance, scopes("new")) {
			t.Errorf("scopes: %v, %v", i1.Relevance, i2.Relevance)
		}
		es, err := db.Lanes.Entries(ctx, "i1", EntryFilter{})
		must(err)
		if es[0].About.Chat != "old" {
			t.Error("an entry in the lane was changed")
		}
		must(db.MoveChat(ctx, Move{Platform: "loop", From: "old", To: "new"}))
	}
}

func TestConversationIsRefreshedSeldom(t *testing.T) {
	c := newClock()
	start := c.now()
	for name, tc := range map[string]struct {
		wait   time.Duration
		change func(*Conversation)
		want   time.Duration // of LastAt, after the start
	}{
		"soon":                      {time.Minute, func(*Conversation) {}, 0},
		"after an hour":             {time.Hour, func(*Conversation) {}, time.Hour},
		"soon, another reason":      {time.Minute, func(c *Conversation) { c.ByGrant = true }, time.Minute},
		"soon, another user":        {time.Minute, func(c *Conversation) { c.By = "u2" }, time.Minute},
		"soon, the same said again": {time.Minute, func(c *Conversation) { c.By = "u1" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.mu.Lock()
			c.at = start
			c.mu.Unlock()
			db := openTest(t, Options{Now: c.now})
			enroll(t, db, "i1")
			acceptOne(t, db, event("e1", 300), "i1")
			c.add(tc.wait)
			a := acceptFor(event("e2", 300), "i1")
			tc.change(&a.Items[0].To[0].Conversation)
			if _, err := db.Accept(ctxOf(t), a); err != nil {
				t.Fatal(err)
			}
			got, ok, err := First(db.Conversations(ctxOf(t), ConversationFilter{Instance: "i1", Chat: relay.Chat{Bot: bot, ID: "c1"}}))
			if err != nil || !ok || got.LastAt.Sub(start) != tc.want {
				t.Errorf("%+v %v %v; want it dated %v after the start", got, ok, err, tc.want)
			}
		})
	}
}

func TestMoveChatFindsEveryBot(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	ctx := ctxOf(t)
	bots := []relay.BotID{"b", "b\x01", "b2", "c"}
	for _, b := range bots {
		for _, chat := range []relay.ChatID{"old", "older"} {
			c := Conversation{Instance: "i1", Bot: relay.Bot{Platform: "loop", ID: b}, Chat: chat}
			must.Succeed(t, db.Converse(ctx, c))
		}
	}
	must.Succeed(t, db.MoveChat(ctx, Move{Platform: "loop", From: "old", To: "new"}))
	all, err := db.Conversations(ctx, ConversationFilter{})
	moved := make(map[relay.ChatID]int)
	for _, c := range all {
		moved[c.Chat]++
	}
	if err != nil || len(moved) != 2 || moved["new"] != len(bots) || moved["older"] != len(bots) {
		t.Errorf("conversations %v, %v; want %d in the new chat and as many in the other", moved, err, len(bots))
	}
}
