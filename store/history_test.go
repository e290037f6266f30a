package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// told is what the history says, a line for each verdict.
func told(t *testing.T, db *DB) string {
	t.Helper()
	all, err := db.History.List(ctxOf(t), history.Query{})
	must.Succeed(t, err)
	var out []string
	for _, m := range all {
		line := fmt.Sprint(m.Of.ID, " ", m.Instance, " ", m.Why)
		if !m.TakenAt.IsZero() {
			line += " taken"
		}
		if m.Died != "" {
			line += " " + m.Died
		}
		for _, a := range m.Answers {
			line += fmt.Sprint(" ", a.State, " ", a.Message, a.Why)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

// lived is a database whose messages met all that can become of one.
func lived(t *testing.T, path string, c *clock) *DB {
	t.Helper()
	db := reopen(t, path, Options{Now: c.now})
	ctx := ctxOf(t)
	must := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	enroll(t, db, "home", "kids")
	must(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "home", DMChat: "c1"}))
	ids := make(map[string]relay.BufferID)
	for _, id := range []string{"e1", "e2", "e3", "e4"} {
		c.add(1e9)
		ids[id] = acceptOne(t, db, event(id, 300), "home", "kids").Buffers[0]
	}
	acceptOne(t, db, event("e1", 300), "home", "kids") // again: it says nothing
	must(acknowledge(ctx, db, "home", ids["e1"]))
	must(db.Lanes.Bury(ctx, "home", ids["e2"], DeadOverflow))
	must(second(db.Lanes.Drop(ctx, nil, "home", ids["e3"])))
	must(db.Lanes.Bury(ctx, "home", ids["e4"], DeadDeaths))
	must(second(db.Lanes.Replay(ctx, nil, "home", ids["e4"])))
	said := history.Said{At: c.now(), Instance: "home", Chat: relay.Chat{Bot: bot, ID: "c1"}, Op: relay.OpSend, Message: "m1", State: history.Sent}
	db.History.Said(said)
	r, err := db.Outbox.Add(ctx, outbox.Record{Instance: "home", Bot: bot, Chat: "c1", Op: relay.OpSend, At: c.now(), Frame: []byte("1")})
	must(err)
	said.State, said.Message = history.Queued, r.ID
	db.History.Said(said)
	must(second(db.DropAnswers(ctx, nil, "home")))
	return db
}

const (
	ofHome = "e1 home delivered taken sent m1 dropped removed; "
	ofAll  = ofHome + "e1 kids delivered; e2 home delivered overflow; e2 kids delivered; e3 home delivered discarded; e3 kids delivered; e4 home delivered; e4 kids delivered"
	ofKids = "e1 kids delivered; e2 kids delivered; e3 kids delivered; e4 kids delivered"
)

// notesIn are the records of b, by their keys.
func notesIn(t *testing.T, db *DB, b string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		for k, v := range table.Under(x, b, nil) {
			out[string(k)] = bytes.Clone(v)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d records in %s, %v", len(out), b, err)
	}
	return out
}

// TestHistory: what became of each message is told, also after a restart and out of a backup, of neither a text; and a
// person who is forgotten is not found in the file.
func TestHistory(t *testing.T) {
	c, dir := newClock(), t.TempDir()
	path := filepath.Join(dir, "test.db")
	db := lived(t, path, c)
	commits := db.Stats().Commits
	if got := told(t, db); got != ofAll || db.Stats().Commits != commits {
		t.Errorf("%s\nwant %s, and no commit", got, ofAll)
	}
	backup := backupOf(t, db)
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: c.now})
	if got := told(t, db); got != ofAll {
		t.Errorf("after a restart: %s", got)
	}
	for _, b := range []string{history.Newest} { // all of it is there still
		for _, v := range notesIn(t, db, b) {
			if bytes.Contains(v, []byte("xxx")) || bytes.Contains(v, []byte("Ann")) {
				t.Errorf("%s has what somebody wrote, or their name: %q", b, v)
			}
		}
	}
	if bound, err := db.Forget(ctxOf(t), nil, "home", "loop", "u1"); err != nil || !bound {
		t.Error(bound, err)
	}
	if got := told(t, db); got != ofKids {
		t.Errorf("forgotten: %s", got)
	}
	if bound, err := db.Forget(ctxOf(t), nil, "kids", "loop", "u1"); err != nil || bound || told(t, db) != "" {
		t.Error(bound, err, told(t, db))
	}
	if n := keysIn(t, db, history.Newest) + keysIn(t, db, history.Older); n > 0 {
		t.Errorf("%d records are left", n)
	}
	closeChecked(t, db)
	if _, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now}); err != nil {
		t.Fatal(err)
	}
	if got := told(t, reopen(t, path, Options{Now: c.now})); got != ofAll {
		t.Errorf("out of a backup: %s", got)
	}
}

// TestDamageOfTheHistory: a damaged record is set aside and named, the start is not refused, and messages come and go.
func TestDamageOfTheHistory(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "test.db")
	db := lived(t, path, c)
	for n := range 40 {
		acceptOne(t, db, event(fmt.Sprint("more", n), 300), "home")
	}
	for _, b := range []string{history.Newest, history.Older} {
		for k := range notesIn(t, db, b) {
			spoil(t, db, b, []byte(k))
			break
		}
	}
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: c.now})
	if n := db.Stats().Damaged; n != 2 {
		t.Errorf("%d damaged records, want 2", n)
	}
	acceptOne(t, db, event("new", 300), "home")
	if got := told(t, db); !strings.HasSuffix(got, "new home delivered") {
		t.Errorf("it says %s", got)
	}
}
