package store

import (
	"errors"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// TestWhatWasReadLastIsWhatStands: through a transaction that failed half done, within one that changed something
// itself, for a reader that began before a change, and in a transaction that follows.
func TestWhatWasReadLastIsWhatStands(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	person := Person{Platform: "loop", User: "ann"}
	bound := func(when string, want int) {
		t.Helper()
		bs, err := db.Bindings(ctx, BindingFilter{Platform: person.Platform, User: person.User})
		if err != nil || len(bs) != want {
			t.Errorf("%s: %d bindings, %v; want %d", when, len(bs), err, want)
		}
	}
	bind := func(x *tx) error {
		return x.bind(Binding{Platform: person.Platform, User: person.User, Instance: "i1"}, db.now())
	}
	bound("before", 0)
	chat := relay.Chat{Bot: bot, ID: "c1"}
	talk := Conversation{Instance: "i1", Bot: bot, Chat: chat.ID, By: "ann", LastAt: db.now()}
	failed := errors.New("no")
	if err := db.change(ctx, nil, "test", func(x *tx) error {
		_, err := x.recents.conversation(x.Tx, conversationOf{"i1", chat})
		err = errors.Join(err, bind(x), x.converse(talk))
		all, err1 := x.recents.conversation(x.Tx, conversationOf{"i1", chat})
		if err != nil || err1 != nil || len(all) != 1 {
			t.Errorf("in the transaction that fails: %v, %v, %v; want one", all, err, err1)
		}
		return failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	bound("after one that failed", 0)
	began, goes, read := make(chan bool), make(chan bool), make(chan error)
	go func() {
		read <- db.records.File.Read(ctx, func(x *bolt.Tx) error {
			close(began)
			<-goes
			if all, err := db.recents.conversation(x, conversationOf{"i1", chat}); err != nil || len(all) > 0 {
				t.Errorf("who began before it was made: %v, %v; want none", all, err)
			}
			return nil
		})
	}()
	<-began
	must.Succeed(t, db.change(ctx, nil, "test", func(x *tx) error {
		if all, err := x.recents.conversation(x.Tx, conversationOf{"i1", chat}); err != nil || len(all) > 0 {
			t.Errorf("before it is made: %v, %v", all, err)
		}
		if err := errors.Join(bind(x), x.converse(talk)); err != nil {
			return err
		}
		if all, err := x.recents.conversation(x.Tx, conversationOf{"i1", chat}); err != nil || len(all) != 1 {
			t.Errorf("in the transaction that makes it: %v, %v; want one", all, err)
		}
		return nil
	}))
	close(goes)
	must.Succeed(t, <-read)
	bound("after one that is stored", 1)
	all, err := db.Conversations(ctx, ConversationFilter{Instance: "i1", Chat: chat})
	if err != nil || len(all) != 1 || all[0].By != "ann" {
		t.Errorf("conversation %v, %v", all, err)
	}
}

// TestRecentIsBounded: of more than fit, what is read is right.
func TestRecentIsBounded(t *testing.T) {
	db := openTest(t, Options{})
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		for n := range 2*maxRecent + 1 {
			if got, err := db.recents.currentChat(x, "loop", relay.ChatID(rune('a'+n))); err != nil || got != relay.ChatID(rune('a'+n)) {
				t.Fatalf("chat %d: %q, %v", n, got, err)
			}
		}
		return nil
	})
	if n := len(db.recents.chats.known); err != nil || n == 0 || n > maxRecent {
		t.Errorf("%d are remembered, %v; want at most %d", n, err, maxRecent)
	}
}
