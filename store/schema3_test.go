package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// schema3 is a database that version 3 wrote: that of schema2, and what was new.
func schema3(t *testing.T) (path string) { return written(t, "schema3") }

// checkSchema3 looks for everything that is in the file of schema3 and not in that of schema2, and for what
// the step to schema 4 touches.
func checkSchema3(t *testing.T, db *DB) {
	t.Helper()
	ctx := ctxOf(t)
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	tg, dc := relay.Bot{Platform: "telegram", ID: "700001"}, relay.Bot{Platform: "discord", ID: "900001"}
	for id, b := range map[relay.EventID]relay.Bot{
		"m1": tg, "m2": tg, "d1": dc, "m3": tg, "-700:1": tg, "-700:2": tg, "-100700:3": tg, "c1:1177171717171717171": dc,
	} {
		seen, err := db.Seen(ctx, b, id)
		check("seen "+string(id), seen, true, err)
		seen, err = db.Seen(ctx, relay.Bot{Platform: b.Platform, ID: "another"}, id)
		check("seen by another "+string(id), seen, false, err)
	}
	for i, want := range map[relay.InstanceID]string{"home": "[m2 d1]", "kids": "[d1 m3 -700:1 c1:1177171717171717171]", "gone": "[]"} {
		check("lane of "+string(i), laneOf(t, db, i), want, nil)
	}
	for i, want := range map[relay.InstanceID]string{"home": "[m1:poison]", "gone": "[m1:removed]"} {
		check("dead letters of "+string(i), deadOf(t, db, i), want, nil)
	}
	us, err := db.Undecided.List(ctx, UndecidedFilter{Chat: relay.Chat{Bot: tg, ID: "-100700"}, Instance: "home"})
	var waiting []string
	for _, u := range us {
		ev := u.Delivery.About()
		waiting = append(waiting, fmt.Sprint(ev.ID, ev.Source.ChatID, ev.Text))
	}
	check("undecided", waiting, []string{"-700:2-100700hello -700:2", "-100700:3-100700hello -100700:3"}, err)
	chat, err := db.CurrentChat(ctx, "telegram", "-700")
	check("moved chat", chat, relay.ChatID("-100700"), err)
	i, ok, err := db.Sent.By(ctx, relay.Chat{Bot: dc, ID: "c1"}, "1213")
	check("sender", fmt.Sprint(i, " ", ok), "home true", err)
	for b, want := range map[relay.Bot]string{tg: "1004", dc: `{"seq":8}`} {
		cursor, err := db.Cursor(ctx, b)
		check("cursor", string(cursor), want, err)
	}
	rows, err := db.Audit(ctx, 1)
	check("audit", rows[0].Action, "revoke", err)
	if s := db.Stats(); s.BadMarks != 0 || s.Damaged != 0 {
		t.Errorf("%d damaged seen marks, %d other records", s.BadMarks, s.Damaged)
	}
}

func TestSchema3IsBroughtUpToDate(t *testing.T) {
	path := schema3(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema3(t, db)
	ctx := ctxOf(t)
	// An entry that was written before goes on dying, comes back, and is read as what it was.
	for n := range 5 {
		e, ok, err := db.Lanes.Next(ctx, "home", 0)
		if err != nil || !ok || e.About.ID != "m2" || e.About.User != "41" || e.Frame != nil || e.Event == nil || e.Event.Text != "hello m2" || e.Deaths != 1+n {
			t.Fatalf("the oldest is %+v, %v, %v", e, ok, err)
		}
		if dead, err := db.Lanes.Died(ctx, "home", e.Buffer); err != nil || dead != (n == 3) {
			t.Fatalf("death %d: %v, %v", n+2, dead, err)
		} else if dead {
			break
		}
	}
	if n, err := db.Lanes.Replay(ctx, nil, "home"); n.Moved != 2 || err != nil || laneOf(t, db, "home") != "[d1 m1 m2]" {
		t.Errorf("replayed %d, %v: %s", n, err, laneOf(t, db, "home"))
	}
	for _, e := range []string{"hello d1", "hello m1", "hello m2"} {
		got, ok, err := db.Lanes.Next(ctx, "home", 0)
		if err != nil || !ok || got.Event == nil || got.Event.Text != e {
			t.Fatalf("%+v, %v, %v; want %q", got, ok, err, e)
		}
		if err := acknowledge(ctx, db, "home", got.Buffer); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"m1", "new"} {
		e := event(id, 300)
		a := acceptFor(e, "home")
		a.Bot = relay.Bot{Platform: "telegram", ID: "700001"}
		if out, err := db.Accept(ctx, a); err != nil || out.Items[0].Duplicate != (id == "m1") {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
	closeChecked(t, db)
	before := read(t, path)
	closeChecked(t, reopen(t, path, Options{Now: schema1Clock}))
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
}

func TestMigrationFromSchema3GoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	path := schema3(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	err = migrate(b, []migration{toSchema2, toSchema3, func(x *bolt.Tx) error { return errors.Join(toSchema4(x), broken) }})
	v, err2 := version(b)
	if err3 := b.Close(); !errors.Is(err, broken) || v != 3 || errors.Join(err2, err3) != nil {
		t.Fatalf("left at version %d with %v, %v, %v; want 3", v, err, err2, err3)
	}
	checkSchema3(t, reopen(t, path, Options{Now: schema1Clock}))

	path = schema3(t)
	if b, err = openBolt(path, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, migrations()[:3]), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema3(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}

// TestMigrationOfManyMarks: all of them are known afterwards, and a damaged one is not believed.
func TestMigrationOfManyMarks(t *testing.T) {
	const marks = 250_000 // more than one run holds
	path := schema3(t)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	day := []byte("hot/seen/" + "2026-11-21")
	tg := relay.Bot{Platform: "telegram", ID: "700001"}
	oldKey := func(n int) []byte { return table.Key(tg.Platform, string(tg.ID), fmt.Sprintf("%d:%d", n%97, n)) }
	for n := 0; n < marks; {
		err := b.Update(func(x *bolt.Tx) error {
			for range 25_000 {
				if err := x.Bucket(day).Put(oldKey(n), seen.OldValue(oldKey(n))); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = boltfile.Update(b, func(x *bolt.Tx) error { return x.Bucket(day).Put(oldKey(5), []byte("spoi")) })
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	db := reopen(t, path, Options{Now: schema1Clock})
	checkMarks := func(n int, want bool) {
		t.Helper()
		if seen, err := db.Seen(ctxOf(t), tg, relay.EventID(fmt.Sprintf("%d:%d", n%97, n))); seen != want || err != nil {
			t.Errorf("event %d is seen: %v, %v; want %v", n, seen, err, want)
		}
	}
	for n := 0; n < marks; n += 97 {
		checkMarks(n, true)
	}
	checkMarks(5, false)
	checkMarks(marks, false)
}
