package store

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestAForwardRestsBesideItsEvent: both come back as they were, from the lane, as a dead letter, and after a replay,
// and another run of the program knows that it did not accept it.
func TestAForwardRestsBesideItsEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	open := func() *DB {
		t.Helper()
		db, err := Open(path, Options{})
		must.Succeed(t, err)
		return db
	}
	db, ctx := open(), ctxOf(t)
	enroll(t, db, "home")
	e := event("e1", 300)
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	f := relay.Forward{Event: e, Body: []byte("x"), Until: until}
	a := Accept{Bot: bot, Items: []AcceptItem{
		{Delivery: f, Frame: frameOf(e), Forward: &Forward{Frame: []byte("a forward\n"), Until: until}, To: []Recipient{{Instance: "home"}}},
		{Delivery: relay.Forward{Event: event("e2", 1), Until: until}, Frame: []byte("too large for a forward\n"), To: []Recipient{{Instance: "home"}}},
	}}
	if _, err := db.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	check := func(db *DB, es []Entry, earlier bool) {
		t.Helper()
		if len(es) == 0 {
			t.Fatal("no entries")
		}
		got := es[0]
		want := &Forward{Frame: []byte("a forward\n"), Until: until, Earlier: earlier}
		if diff := cmp.Diff(want, got.Forward); diff != "" || string(got.Frame) != string(frameOf(e)) || got.About.ID != "e1" {
			t.Fatalf("entry %+v (-want +got):\n%s", got, diff)
		}
	}
	list := func(db *DB, dead bool) []Entry {
		t.Helper()
		es, err := db.Lanes.Entries(ctx, "home", EntryFilter{Dead: dead})
		must.Succeed(t, err)
		return es
	}
	es := list(db, false)
	check(db, es, false)
	if es[1].Forward != nil || string(es[1].Frame) != "too large for a forward\n" {
		t.Fatalf("entry %+v", es[1])
	}
	for range 2 { // deaths are counted in the same record
		if buried, err := db.Lanes.Died(ctx, "home", es[0].Buffer); buried || err != nil {
			t.Fatal(buried, err)
		}
	}
	check(db, list(db, false), false)
	must.Succeed(t, db.Close())
	db = open()
	next, ok, err := db.Lanes.Next(ctx, "home", 0)
	if err != nil || !ok || next.Deaths != 2 {
		t.Fatalf("%+v, %v, %v", next, ok, err)
	}
	check(db, []Entry{next}, true)
	must.Succeed(t, db.Lanes.Bury(ctx, "home", next.Buffer, DeadPoison))
	check(db, list(db, true), true)
	if n, err := db.Lanes.Replay(ctx, nil, "home"); n.Moved != 1 || err != nil {
		t.Fatal(n, err)
	}
	check(db, list(db, false)[1:], true)
	must.Succeed(t, db.Close())
}
