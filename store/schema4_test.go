package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// schema4 is a database that version 4 wrote: that of schema3, and seventy-one more messages. Its root is five pages.
func schema4(t *testing.T) (path string) { return written(t, "schema4") }

// checkSchema4 looks for what the step to schema 5 could touch.
func checkSchema4(t *testing.T, db *DB) {
	t.Helper()
	ctx := ctxOf(t)
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	tg, dc := relay.Bot{Platform: "telegram", ID: "700001"}, relay.Bot{Platform: "discord", ID: "900001"}
	for n := range 70 {
		seen, err := db.Seen(ctx, tg, relay.EventID(fmt.Sprintf("s4-%02d", n)))
		check("seen", seen, true, err)
	}
	for id, b := range map[relay.EventID]relay.Bot{"m1": tg, "d1": dc, "-100700:3": tg, "s4-last": tg} {
		seen, err := db.Seen(ctx, b, id)
		check("seen "+string(id), seen, true, err)
	}
	seen, err := db.Seen(ctx, dc, "s4-last")
	check("seen by another", seen, false, err)
	for i, want := range map[relay.InstanceID]string{
		"home": "[m2 d1 s4-last]", "kids": "[d1 m3 -700:1 c1:1177171717171717171 s4-68 s4-69]", "gone": "[]",
	} {
		check("lane of "+string(i), laneOf(t, db, i), want, nil)
	}
	for i, want := range map[relay.InstanceID]string{"home": "[m1:poison]", "kids": "[s4-67:deaths]", "gone": "[m1:removed]"} {
		check("dead letters of "+string(i), deadOf(t, db, i), want, nil)
	}
	us, err := db.Undecided.List(ctx, UndecidedFilter{Chat: relay.Chat{Bot: tg, ID: "-100700"}, Instance: "home"})
	check("undecided", len(us), 2, err)
	for m, c := range map[relay.MessageID]relay.Chat{"555": {Bot: tg, ID: "41"}, "1213": {Bot: dc, ID: "c1"}} {
		i, ok, err := db.Sent.By(ctx, c, m)
		check("sender", fmt.Sprint(i, " ", ok), "home true", err)
	}
	for b, want := range map[relay.Bot]string{tg: "1099", dc: `{"seq":8}`} {
		cursor, err := db.Cursor(ctx, b)
		check("cursor", string(cursor), want, err)
	}
	rows, err := db.Audit(ctx, 0)
	check("audit", len(rows), 11, err)
	instances, err := db.Instances(ctx)
	check("instances", len(instances), 3, err)
	if s := db.Stats(); s.BadMarks != 0 || s.Damaged != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSchema4IsBroughtUpToDate(t *testing.T) {
	path := schema4(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema4(t, db)
	closeChecked(t, db)
	before := read(t, path)
	db = reopen(t, path, Options{Now: schema1Clock})
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
	a := acceptFor(event("new", 300), "kids")
	a.Bot = relay.Bot{Platform: "telegram", ID: "700001"}
	pages := pagesOf(t, db, func() { // in a chat that was unknown
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			t.Error(err)
		}
	})
	if pages > 5 { // one less than the root had
		t.Errorf("%d pages for a message: the root is more than one page", pages)
	}
}

func TestMigrationFromSchema4GoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	path := schema4(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	steps := migrations()
	steps[3] = func(x *bolt.Tx) error { return errors.Join(toSchema5(x), broken) }
	err = migrate(b, steps)
	v, err2 := version(b)
	if err3 := b.Close(); !errors.Is(err, broken) || v != 4 || errors.Join(err2, err3) != nil {
		t.Fatalf("left at version %d with %v, %v, %v; want 4", v, err, err2, err3)
	}
	checkSchema4(t, reopen(t, path, Options{Now: schema1Clock}))

	path = schema4(t)
	if b, err = openBolt(path, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, migrations()[:4]), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema4(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}
