package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, content, 0o600))
}

var otherBot = relay.Bot{Platform: "loop", ID: "other"}

// wentOn is a database that has gone on since its backup was made, and the backup: e1 waited then and
// was delivered since, e2 came and was delivered since, e3 waits, e4 is a dead letter, e5 is undecided.
// Those are otherBot's; bot has b1, which came and was delivered since.
func wentOn(t *testing.T, c *clock) (path string, backup []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "renewed")
	say := func(b relay.Bot, id string) relay.BufferID {
		t.Helper()
		e := event(id, 300)
		e.Bot = b
		a := acceptFor(e, "i1")
		a.Bot, a.Cursor = b, []byte(id)
		out, err := db.Accept(ctx, a)
		must.Succeed(t, err)
		return out.Items[0].Buffers[0]
	}
	check := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	e1 := say(otherBot, "e1")
	say(bot, "b0")
	check(db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "group", Instance: "i1"}))
	backup = backupOf(t, db)
	c.add(time.Hour)
	check(acknowledge(ctx, db, "i1", e1))
	check(acknowledge(ctx, db, "i1", say(otherBot, "e2")))
	check(acknowledge(ctx, db, "i1", say(bot, "b1")))
	say(otherBot, "e3")
	check(db.Lanes.Bury(ctx, "i1", say(otherBot, "e4"), DeadPoison))
	check(second(db.Revoke(ctx, nil, "renewed")))
	check(db.MoveChat(ctx, Move{Platform: "loop", From: "group", To: "supergroup"}))
	check(db.change(ctx, nil, "test", func(x *tx) error {
		e5 := event("e5", 300)
		e5.Bot = otherBot
		for _, r := range []struct {
			b string
			k []byte
			v any
		}{
			{bucketPending, []byte("undecided"), map[string]any{"at": c.now(), "instance": "i1", "event": e5}},
			{authors.Bucket, []byte("sent"), map[string]any{"instance": "i1"}},
			{authors.Bucket, []byte("sent by another"), map[string]any{"instance": "late"}},
			{BucketMoves, table.Key("loop", "group"), map[string]any{"platform": "loop", "from": "group", "to": "supergroup"}},
		} {
			if err := x.Put(r.b, r.k, r.v); err != nil {
				return err
			}
		}
		x.marks.Mark(x.Writer, dedupe.Of(otherBot, "e5"), c.now())
		return nil
	}))
	enroll(t, db, "late")
	closeChecked(t, db)
	return path, backup
}

// seenIn are those of the events that have a mark.
func seenIn(t *testing.T, db *DB, events map[relay.EventID]relay.Bot) map[relay.EventID]bool {
	t.Helper()
	out := make(map[relay.EventID]bool)
	for e, b := range events {
		seen, err := db.Seen.Has(ctxOf(t), b, e)
		must.Succeed(t, err)
		if seen {
			out[e] = true
		}
	}
	return out
}

var allEvents = map[relay.EventID]relay.Bot{"e1": otherBot, "e2": otherBot, "e3": otherBot, "e4": otherBot, "e5": otherBot, "b0": bot, "b1": bot}

func TestRestoreDeliversNothingAgain(t *testing.T) { // invariant 7
	c := newClock()
	path, backup := wentOn(t, c)
	got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now})
	if err != nil || !got.Carried || got.Lost.Messages["i1"] != 2 || got.Lost.Dead["i1"] != 1 || got.Back.Messages["i1"] != 1 {
		t.Fatalf("%+v, %v; want e3 and e5 lost, a dead letter too, and e1 back", got, err)
	}
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	db := reopen(t, path, Options{Now: c.now})
	if n := db.Stats().Damaged; n != 0 {
		t.Errorf("%d damaged", n)
	}
	want := map[relay.EventID]bool{"e1": true, "e2": true, "b0": true, "b1": true}
	if seen := seenIn(t, db, allEvents); fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("seen are %v, want %v: what is lost may come again", seen, want)
	}
	// The other bot's platform is asked from where e3 is not lost; what it repeats beside that is known.
	if a, b := cursorOf(t, db, bot), cursorOf(t, db, otherBot); a != "b1" || b != "e1" {
		t.Errorf("cursors %s and %s, want b1, carried, and e1, the backup's", a, b)
	}
	grants, err := db.Grants(ctxOf(t), GrantFilter{})
	if err != nil || len(grants) != 1 || grants[0].Chat != "supergroup" {
		t.Errorf("grants %+v, %v; want the chat under its new id", grants, err)
	}
	err = db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		for k, want := range map[string]bool{"sent": true, "sent by another": false} {
			if table.Has(x, authors.Bucket, []byte(k)) != want {
				t.Errorf("%s: carried is not %v", k, want)
			}
		}
		if !table.Has(x, BucketMoves, table.Key("loop", "group")) {
			t.Error("the chat's move is not carried")
		}
		return nil
	})
	must.Succeed(t, err)
}

// TestRestoreSaysWhatItCouldNotCarry: where it cannot be told what was delivered, a message comes twice
// rather than not at all.
func TestRestoreSaysWhatItCouldNotCarry(t *testing.T) { // invariants 7 and 8
	t.Parallel()
	c := newClock()
	path, backup := wentOn(t, c)
	former := read(t, path)
	entry := []byte("\x02e3\x04loop") // in its head
	if !bytes.Contains(former, entry) {
		t.Fatal("no e3 in the file")
	}
	for name, tc := range map[string]struct {
		content           []byte
		compared, carried bool
	}{
		"no database":          {nil, false, false},
		"an empty file":        {[]byte{}, false, false},
		"ruins":                {former[:5*pageSize], false, false},
		"what waits is not to": {bytes.ReplaceAll(former, entry, []byte("\x02e7\x04loop")), true, false},
		"another record is":    {bytes.ReplaceAll(former, []byte(`"chat":"supergroup"`), []byte(`"chat":"supergr7up"`)), true, true},
		"sound":                {former, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			if tc.content != nil {
				put(t, path, tc.content)
			}
			got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now})
			if err != nil || got.Compared != tc.compared || got.Carried != tc.carried || got.MadeAt.IsZero() {
				t.Fatalf("%+v, %v; want compared %v, carried %v", got, err, tc.compared, tc.carried)
			}
			db := reopen(t, path, Options{Now: c.now})
			want := map[relay.EventID]bool{"e1": true, "b0": true}
			if tc.carried {
				want["e2"], want["b1"] = true, true
			}
			if seen := seenIn(t, db, allEvents); fmt.Sprint(seen) != fmt.Sprint(want) || db.Stats().Damaged != 0 {
				t.Errorf("seen are %v, want %v; %d damaged", seen, want, db.Stats().Damaged)
			}
			if cursor := cursorOf(t, db, bot); (cursor == "b1") != tc.carried {
				t.Errorf("cursor %s", cursor)
			}
		})
	}
}

// TestRestoreOfADamagedBackupCarries: and leaves what is damaged to be named.
func TestRestoreOfADamagedBackupCarries(t *testing.T) { // invariant 8
	c := newClock()
	path, backup := wentOn(t, c)
	at := filepath.Join(t.TempDir(), "backup.db")
	put(t, at, backup)
	b, err := openBolt(at, Options{}.withDefaults())
	must.Succeed(t, err)
	err = boltfile.Update(b, func(x *bolt.Tx) error {
		return x.Bucket([]byte(BucketCursors)).Put(botKey(bot), []byte("what a sick disk made of it"))
	})
	if err == nil { // or the restored one would be what was before the damage
		err = boltfile.Update(b, func(*bolt.Tx) error { return nil })
	}
	if err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	got, err := Restore(path, bytes.NewReader(read(t, at)), Options{Now: c.now})
	if err != nil || !got.Carried || got.Damaged != 1 {
		t.Fatalf("%+v, %v; want it carried, and one damaged record", got, err)
	}
	db := reopen(t, path, Options{Now: c.now})
	seen := seenIn(t, db, allEvents)
	q, err := db.Lanes.Quarantine(ctxOf(t))
	if err != nil || len(q) != 1 || !strings.Contains(q[0].Err, "hot/cursors") || !seen["e2"] || !seen["b1"] {
		t.Errorf("quarantined %+v, %v, seen are %v; want the cursor named, and what was delivered seen", q, err, seen)
	}
}

// TestRestoreOverANewerVersions: nothing of it is believed.
func TestRestoreOverANewerVersions(t *testing.T) {
	c := newClock()
	path, backup := wentOn(t, c)
	b, err := openBolt(path, Options{}.withDefaults())
	must.Succeed(t, err)
	err = boltfile.Update(b, func(x *bolt.Tx) error { return setVersion(x, 99) })
	if err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	if got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now}); err != nil || got.Compared || got.Carried {
		t.Errorf("%+v, %v; want it neither compared nor carried", got, err)
	}
}

// TestRestoreCarriesManyMarks: more than go into one transaction, over days, and none that are past their time.
func TestRestoreCarriesManyMarks(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: c.now})
	backup := backupOf(t, db)
	days := 0
	for range 6 {
		a := Accept{Bot: bot}
		for n := range 4000 {
			a.Items = append(a.Items, AcceptItem{Delivery: relay.Event{ID: relay.EventID(fmt.Sprintf("d%d-%d", days, n)), Bot: bot}})
		}
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			t.Fatal(err)
		}
		days++
		c.add(day)
	}
	closeChecked(t, db)
	c.add(-day)
	if got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now}); err != nil || !got.Carried {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	db = reopen(t, path, Options{Now: c.now})
	n := 0
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		for _, b := range []string{dedupe.Newest, dedupe.Runs} {
			for k, v := range table.Under(x, b, nil) {
				ms, err := dedupe.Decode(k, v)
				if n += len(ms); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || n != (dedupe.Days+1)*4000 {
		t.Errorf("%d marks, %v; want those of today and the three days before", n, err)
	}
}

func FuzzCarriedRecords(f *testing.F) {
	f.Add([]byte(`{"instance":"i1","event":{"id":"e1"}}`), []byte(`{"platform":"loop","from":"a","to":"b"}`), []byte(`{"instance":"i1"}`))
	f.Add([]byte(`{"instance":5}`), []byte(`{"from":"a","to":"a"}`), []byte(`[]`))
	f.Add([]byte(`{}`), []byte(`null`), []byte(``))
	empty := filepath.Join(f.TempDir(), "empty.db")
	db, err := Open(empty, Options{})
	if err != nil {
		f.Fatal(err)
	}
	var backup bytes.Buffer
	if _, err := db.Backup(f.Context(), &backup); err != nil || db.Close() != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, waiting, chat, sender []byte) {
		path := filepath.Join(t.TempDir(), "test.db")
		db, err := Open(path, Options{})
		must.Succeed(t, err)
		err = db.change(t.Context(), nil, "test", func(x *tx) error {
			for b, payload := range map[string][]byte{bucketPending: waiting, BucketMoves: chat, authors.Bucket: sender} {
				if err := x.PutSealed(b, []byte("k"), boltfile.Seal([]byte("k"), payload)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || db.Close() != nil {
			t.Fatal(err)
		}
		got, err := Restore(path, bytes.NewReader(backup.Bytes()), Options{})
		must.Succeed(t, err)
		var u struct {
			Event struct{ ID string }
		}
		if got.Carried && (json.Unmarshal(waiting, &u) != nil || u.Event.ID == "") {
			t.Errorf("carried, though nobody can tell what %q is", waiting)
		}
		if err := VerifyFile(path); err != nil {
			t.Error(err)
		}
	})
}
