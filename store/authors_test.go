package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var sentChat = relay.Chat{Bot: bot, ID: "c1"}

// sender is who is remembered to have sent m.
func sender(t *testing.T, db *DB, c relay.Chat, m relay.MessageID) relay.InstanceID {
	t.Helper()
	i, ok, err := db.Authors.By(ctxOf(t), c, m)
	must.Succeed(t, err)
	if !ok {
		return ""
	}
	return i
}

func TestWhoSentAMessage(t *testing.T) {
	ctx, clock := ctxOf(t), newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	commits := db.Stats().Commits
	db.Authors.Note("home", sentChat, "m1", "", "m2")
	db.Authors.Note("kids", relay.Chat{Bot: bot, ID: "c2"}, "m1")
	if n := db.Stats().Commits; n != commits {
		t.Errorf("remembering took %d commits", n-commits)
	}
	check := func(when string) {
		t.Helper()
		for _, tc := range []struct {
			chat relay.ChatID
			m    relay.MessageID
			want relay.InstanceID
		}{{"c1", "m1", "home"}, {"c1", "m2", "home"}, {"c2", "m1", "kids"}, {"c2", "m2", ""}, {"c1", "", ""}} {
			if got := sender(t, db, relay.Chat{Bot: bot, ID: tc.chat}, tc.m); got != tc.want {
				t.Errorf("%s: %s in %s was sent by %q, want %q", when, tc.m, tc.chat, got, tc.want)
			}
		}
	}
	check("before a commit")
	acceptOne(t, db, event("e1", 300), "home")
	check("after one")
	if n := keysIn(t, db, authors.Bucket); n != 3 {
		t.Errorf("the commit took %d along, want 3", n)
	}
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	check("after a restart")
	clock.add(authors.Kept + time.Second)
	if got := sender(t, db, sentChat, "m1"); got != "" {
		t.Errorf("after two days it was sent by %q", got)
	}
	if _, err := db.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if n := keysIn(t, db, authors.Bucket); n != 0 {
		t.Errorf("%d are left after the sweep", n)
	}
}

// TestWhoSetAReaction: it is remembered beside the message's sender, and over restarts; one that is removed leaves its place free,
// and a bot's only one a minute later.
func TestWhoSetAReaction(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	eyes, only := relay.Reaction{Chat: sentChat, Message: "m1", Name: "eyes"}, relay.Reaction{Chat: sentChat, Message: "m1"}
	check := func(when string, r relay.Reaction, want relay.InstanceID) {
		t.Helper()
		i, ok, err := db.Authors.ReactionBy(ctxOf(t), r)
		if err != nil || ok != (want != "") || ok && i != want {
			t.Errorf("%s: set by %q, %t, %v; want %q", when, i, ok, err, want)
		}
	}
	commits := db.Stats().Commits
	db.Authors.Note("kids", sentChat, "m1")
	db.Authors.NoteReaction("home", eyes, false)
	db.Authors.NoteReaction("home", only, false)
	if n := db.Stats().Commits; n != commits {
		t.Errorf("remembering took %d commits", n-commits)
	}
	check("before a commit", eyes, "home")
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	check("after a restart", eyes, "home")
	check("after a restart", relay.Reaction{Chat: sentChat, Message: "m1", Name: "tick"}, "")
	if got := sender(t, db, sentChat, "m1"); got != "kids" {
		t.Errorf("the message was sent by %q", got)
	}
	db.Authors.NoteReaction("home", eyes, true)
	db.Authors.NoteReaction("home", only, true)
	check("removed", eyes, "")
	check("removed, the only one", only, "home")
	acceptOne(t, db, event("e1", 300), "home")
	clock.add(authors.Held)
	check("a minute later", only, "")
	if _, err := db.Sweep(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	clock.add(time.Second)
	if _, err := db.Sweep(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if n := keysIn(t, db, authors.Bucket); n != 1 {
		t.Errorf("%d records are left, want the message's", n)
	}
	db.Authors.NoteReaction("home", eyes, false)
	if _, err := db.Revoke(ctxOf(t), nil, "home"); err != nil {
		t.Fatal(err)
	}
	check("revoked", eyes, "")
}

// TestARevokedInstancesMessagesAreForgotten with everything else it was given.
func TestARevokedInstancesMessagesAreForgotten(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "home", "kids")
	db.Authors.Note("home", sentChat, "m1")
	db.Authors.Note("kids", sentChat, "m2")
	acceptOne(t, db, event("e1", 300), "home")
	db.Authors.Note("home", sentChat, "m3") // rides with the revocation
	if _, err := db.Revoke(ctxOf(t), nil, "home"); err != nil {
		t.Fatal(err)
	}
	for m, want := range map[relay.MessageID]relay.InstanceID{"m1": "", "m2": "kids", "m3": ""} {
		if got := sender(t, db, sentChat, m); got != want {
			t.Errorf("%s was sent by %q, want %q", m, got, want)
		}
	}
}
