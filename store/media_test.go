package store

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// withFiles is an event with files of these ids.
func withFiles(id string, files ...relay.MediaID) relay.Event {
	ev := event(id, 300)
	for _, f := range files {
		ev.Attachments = append(ev.Attachments, relay.Attachment{ID: f, Ref: "ref of " + string(f), Kind: relay.TypePhoto})
	}
	return ev
}

func acceptFiles(t testing.TB, db *DB, id string, to []relay.InstanceID, files ...relay.MediaID) []relay.BufferID {
	t.Helper()
	a := acceptFor(withFiles(id, files...), to...)
	a.Items[0].Whole = true
	out, err := db.Accept(ctxOf(t), a)
	must.Succeed(t, err)
	return out.Items[0].Buffers
}

// filesOf are all records, each as "id state for needed" and a mark of what is let go of.
func filesOf(t testing.TB, db *DB) (out []string) {
	t.Helper()
	all, err := db.Media.List(ctxOf(t))
	must.Succeed(t, err)
	for _, r := range all {
		s := fmt.Sprintf("%s %s %v %v", r.ID, r.State, r.For, r.Needed)
		if !r.Freed.IsZero() {
			s += " freed"
		}
		out = append(out, s)
	}
	return out
}

func wantFiles(t testing.TB, db *DB, when string, want ...string) {
	t.Helper()
	if got := filesOf(t, db); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
}

func become(t testing.TB, db *DB, s relay.MediaState, ids ...relay.MediaID) {
	t.Helper()
	if err := db.Media.Change(ctxOf(t), func(r *media.Record) bool {
		r.State = s
		return true
	}, ids...); err != nil {
		t.Fatal(err)
	}
}

// TestFilesFollowTheirEntries: however an entry comes into a lane or leaves it, the records say who needs its files.
func TestFilesFollowTheirEntries(t *testing.T) {
	for name, leave := range map[string]func(db *DB, b relay.BufferID) error{
		"acknowledged": func(db *DB, b relay.BufferID) error { return db.Lanes.Ack(ctxOf(t), "i1", b) },
		"dropped": func(db *DB, b relay.BufferID) error {
			_, err := db.Lanes.Drop(ctxOf(t), nil, "i1", b)
			return err
		},
		"buried": func(db *DB, b relay.BufferID) error {
			err := db.Lanes.Bury(ctxOf(t), "i1", b, DeadPoison)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{})
			enroll(t, db, "i1", "i2")
			bs := acceptFiles(t, db, "e1", []relay.InstanceID{"i1", "i2"}, "a", "b")
			wantFiles(t, db, "stored", "a waiting [i1 i2] [i1 i2]", "b waiting [i1 i2] [i1 i2]")
			become(t, db, relay.MediaHeld, "a")
			must.Succeed(t, leave(db, bs[0]))
			wantFiles(t, db, name, "a held [i1 i2] [i2]", "b waiting [i1 i2] [i2]")
			taken := map[string]int{"acknowledged": 1}[name]
			if n := db.Media.Taken("i1"); n != taken || db.Media.Taken("i2") != 0 {
				t.Errorf("%d files taken, want %d", n, taken)
			}
			become(t, db, relay.MediaGone, "b")
			must.Succeed(t, db.Lanes.Ack(ctxOf(t), "i2", bs[1]))
			wantFiles(t, db, "all gone", "a held [i1 i2] [] freed", "b gone [i1 i2] [] freed")
			if name != "buried" {
				return
			}
			if _, err := db.Lanes.Replay(ctxOf(t), nil, "i1"); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, db, "replayed", "a held [i1 i2] [i1]", "b waiting [i1 i2] [i1]")
		})
	}
}

// TestFilesOfAFullLane: what falls out of a lane lets go of its files, by number and by age.
func TestFilesOfAFullLane(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now, Limits: Limits{MaxEntries: 1, MaxAge: time.Hour}})
	enroll(t, db, "i1")
	acceptFiles(t, db, "e1", []relay.InstanceID{"i1"}, "a")
	acceptFiles(t, db, "e2", []relay.InstanceID{"i1"}, "b")
	wantFiles(t, db, "overflowed", "a waiting [i1] [] freed", "b waiting [i1] [i1]")
	c.add(48 * time.Hour)
	if _, err := db.Sweep(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, db, "too old", "a waiting [i1] [] freed", "b waiting [i1] [] freed")
}

// TestFilesOfWhatIsUndecided: they are recorded with the verdict, under the ids they had from the start.
func TestFilesOfWhatIsUndecided(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	for _, id := range []string{"e1", "e2"} {
		ev := withFiles(id, relay.MediaID("of-"+id))
		if _, err := db.Accept(ctxOf(t), Accept{Bot: bot, Items: []AcceptItem{{Delivery: ev, Undecided: []relay.InstanceID{"i1"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(t, db, "undecided")
	us, err := db.Pending.List(ctxOf(t), PendingFilter{})
	must.Succeed(t, err)
	var vs []Verdict
	for n, u := range us {
		v := Verdict{Number: u.Number, Instance: "i1", Delivery: u.Delivery, Whole: true}
		if n == 0 {
			v.To = &Recipient{Instance: "i1"}
		}
		vs = append(vs, v)
	}
	if _, err := db.Pending.Decide(ctxOf(t), us[0].Delivery.About().Chat(), vs); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, db, "decided", "of-e1 waiting [i1] [i1]")
}

// TestARevokedInstanceHasNoFiles: its uploads and what it could read are nobody's, and who bears its name next gets none.
func TestARevokedInstanceHasNoFiles(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1", "i2")
	acceptFiles(t, db, "e1", []relay.InstanceID{"i1", "i2"}, "a")
	up := media.Record{Attachment: relay.Attachment{ID: "u"}, For: []relay.InstanceID{"i1"}, State: relay.MediaHeld, Freed: time.Now()}
	must.Succeed(t, db.Media.Add(ctxOf(t), up))
	if _, err := db.Revoke(ctxOf(t), nil, "i1", "i1"); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, db, "revoked", "a waiting [i2] [i2]", "u held [] [] freed")
}

// TestDamagedFilesAndEntries: a record that is damaged is made anew of the entry, and an entry that is damaged lets go
// of its files, at the start and in the sweep.
func TestDamagedFilesAndEntries(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptFiles(t, db, "e1", []relay.InstanceID{"i1"}, "a")
	bs := acceptFiles(t, db, "e2", []relay.InstanceID{"i1"}, "b")
	become(t, db, relay.MediaHeld, "a", "b")
	spoil := func(db *DB, bucket string, k []byte) {
		t.Helper()
		must.Succeed(t, db.change(ctxOf(t), nil, "test", func(x *tx) error {
			v := bytes.Clone(x.Bucket([]byte(bucket)).Get(k))
			v[len(v)-1] ^= 1
			return x.PutSealed(bucket, k, v)
		}))
	}
	spoil(db, media.Bucket, media.Key("a"))
	spoil(db, bucketEntries, keyOf(t, db, "i1", bs[0].Seq))
	path := db.path
	closeChecked(t, db)
	db = reopen(t, path, Options{})
	wantFiles(t, db, "opened", "a waiting [i1] [i1]", "b held [i1] [] freed")
	bs = acceptFiles(t, db, "e3", []relay.InstanceID{"i1"}, "c")
	spoil(db, bucketEntries, keyOf(t, db, "i1", bs[0].Seq))
	if _, _, err := db.Lanes.Next(ctxOf(t), "i1", bs[0].Seq-1); err != nil { // sets it aside
		t.Fatal(err)
	}
	wantFiles(t, db, "set aside", "a waiting [i1] [i1]", "b held [i1] [] freed", "c waiting [i1] [i1]")
	if _, err := db.Sweep(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, db, "swept", "a waiting [i1] [i1]", "b held [i1] [] freed", "c waiting [i1] [] freed")
}

// TestEveryBitOfAFilesRecord: damage to a record never lets it say something else: it is set aside, and made anew of
// its entry.
func TestEveryBitOfAFilesRecord(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptFiles(t, db, "e1", []relay.InstanceID{"i1"}, "abcdef0123456789")
	become(t, db, relay.MediaHeld, "abcdef0123456789")
	var key, value []byte
	must.Succeed(t, db.change(ctxOf(t), nil, "test", func(x *tx) error {
		key = media.Key("abcdef0123456789")
		value = bytes.Clone(x.Bucket([]byte(media.Bucket)).Get(key))
		return nil
	}))
	path := db.path
	closeChecked(t, db)
	file := read(t, path)
	for bit := 0; bit < len(value)*8; bit += 37 { // every byte is met
		b := bytes.ReplaceAll(file, value, flipped(value, bit))
		must.Succeed(t, os.WriteFile(path, b, 0o600))
		x, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("bit %d: %v", bit, err)
		}
		wantFiles(t, x, fmt.Sprint("bit ", bit), "abcdef0123456789 waiting [i1] [i1]")
		must.Succeed(t, x.Close())
	}
}

func flipped(b []byte, bit int) []byte {
	b = bytes.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

// TestTextMentionsNoFiles: whatever people write, their messages' entries are not looked into for files.
func TestTextMentionsNoFiles(t *testing.T) {
	ev := event("e1", 300)
	ev.Text = `"files":[{"id":"a"}]`
	b, err := table.Encode(ev)
	if err != nil || media.Mentions(b) {
		t.Errorf("%v: %s", err, b)
	}
	ev = withFiles("e1", "a")
	if b, err = table.Encode(ev); err != nil || !media.Mentions(b) {
		t.Errorf("%v: %s", err, b)
	}
}
