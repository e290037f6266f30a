package authors

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

var chat = relay.Chat{Bot: relay.Bot{Platform: "telegram", ID: "1"}, ID: "c1"}

// open is the log of a new database in which the instance "gone" is closed.
func open(t *testing.T) (*Log, *tabletest.DB) {
	t.Helper()
	db := tabletest.Open(t, Bucket)
	l := New(db.DB)
	err := db.File.Read(t.Context(), func(x *bolt.Tx) error { l.Load(x); return nil })
	must.Succeed(t, err)
	db.Rides = append(db.Rides, func(w *table.Writer) (func(), error) {
		return l.Ride(w, func(i relay.InstanceID) bool { return i == "gone" })
	})
	return l, db
}

// TestNotedIsKnownAtOnceAndOnDiskWithTheNextCommit, and for 48 hours; of a closed instance nothing gets there.
func TestNotedIsKnownAtOnceAndOnDiskWithTheNextCommit(t *testing.T) {
	l, db := open(t)
	check := func(when string, want map[relay.MessageID]relay.InstanceID) {
		t.Helper()
		for m, who := range want {
			if i, ok, err := l.By(t.Context(), chat, m); err != nil || ok != (who != "") || ok && i != who {
				t.Errorf("%s: %s was sent by %q, %t, %v; want %q", when, m, i, ok, err, who)
			}
		}
	}
	commits := db.File.Stats().Commits
	l.Note("home", chat, "m1", "", "m2")
	l.Note("gone", chat, "m3")
	check("noted", map[relay.MessageID]relay.InstanceID{"m1": "home", "m2": "home", "m3": "gone", "": "", "m4": ""})
	if n := db.File.Stats().Commits - commits; n != 0 {
		t.Errorf("noting took %d commits", n)
	}
	db.Commit(t)
	if n := db.Keys(t, Bucket); n != 2 {
		t.Errorf("%d are on disk, want 2", n)
	}
	check("on disk", map[relay.MessageID]relay.InstanceID{"m1": "home", "m3": ""})
	db.Time = db.Time.Add(Kept)
	check("two days later", map[relay.MessageID]relay.InstanceID{"m1": ""})
}

// TestARemovedReactionIsNobodys, but a bot's only one keeps its place for a minute.
func TestARemovedReactionIsNobodys(t *testing.T) {
	l, db := open(t)
	for name, kept := range map[string]time.Duration{"eyes": 0, "": Held} {
		r := relay.Reaction{Chat: chat, Message: "m1", Name: name}
		has := func(want bool) {
			t.Helper()
			if i, ok, err := l.ReactionBy(t.Context(), r); err != nil || ok != want || ok && i != "home" {
				t.Errorf("%q: %q, %t, %v; want %t", name, i, ok, err, want)
			}
		}
		l.NoteReaction("home", r, false)
		db.Commit(t)
		has(true)
		l.NoteReaction("home", r, true)
		has(kept > 0)
		db.Time = db.Time.Add(kept)
		has(false)
	}
}

// TestTheOldestOfOneInstanceGo, when there are Spare too many, and none of another's.
func TestTheOldestOfOneInstanceGo(t *testing.T) {
	l, db := open(t)
	l.Note("kids", chat, "k")
	for n := 0; n <= Max+Spare; {
		for range 500 {
			n++
			db.Time = db.Time.Add(time.Second)
			l.Note("home", chat, relay.MessageID(fmt.Sprint(n)))
		}
		db.Commit(t)
	}
	if n := db.Keys(t, Bucket); n != Max+1 {
		t.Errorf("%d are left, want %d and the neighbour's", n, Max)
	}
	for m, want := range map[relay.MessageID]bool{"1": false, "1000": false, "1001": true, "6000": true, "k": true} {
		if _, ok, err := l.By(t.Context(), chat, m); ok != want || err != nil {
			t.Errorf("%s: %t, %v; want %t", m, ok, err, want)
		}
	}
}
