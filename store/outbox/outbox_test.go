package outbox

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func open(t *testing.T) (*tabletest.DB, *Records) {
	db := tabletest.Open(t, Bucket, media.Bucket)
	return db, New(db.DB)
}

func answer(i relay.InstanceID, size int) Record {
	return Record{Instance: i, Bot: relay.Bot{Platform: "loop", ID: "b"}, Chat: "c", Op: relay.OpSend, Frame: json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)}
}

func add(t *testing.T, rs *Records, r Record) Record {
	t.Helper()
	r, err := rs.Add(t.Context(), r)
	must.Succeed(t, err)
	return r
}

// TestBounds: an instance has room for so many answers, and its neighbour's are not counted.
func TestBounds(t *testing.T) {
	_, rs := open(t)
	for range MaxWaiting {
		add(t, rs, answer("many", 10))
	}
	if _, err := rs.Add(t.Context(), answer("many", 10)); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more than %d: %v", MaxWaiting, err)
	}
	first := add(t, rs, answer("other", 10))
	if there, err := rs.Change(t.Context(), first.Number, func(r *Record) bool {
		r.Frame, r.Over, r.Message = nil, time.Unix(1, 0), "m1"
		return true
	}); !there || err != nil {
		t.Fatal(there, err)
	}
	open, err := rs.List(t.Context(), Filter{Instance: "other"})
	all, err2 := rs.List(t.Context(), Filter{Instance: "other", Sent: true})
	if len(open) != 0 || len(all) != 1 || err != nil || err2 != nil {
		t.Errorf("%d wait and %d are known, %v, %v", len(open), len(all), err, err2)
	}
}

// TestIDs: an answer is found by its whole id, and by whose it is.
func TestIDs(t *testing.T) {
	_, rs := open(t)
	r := add(t, rs, answer("home", 10))
	if !IsID(r.ID) || IsID("123") {
		t.Errorf("%q is no id", r.ID)
	}
	for id, want := range map[relay.MessageID]bool{
		r.ID: true, r.ID + "x": false, "q:1": false, "q:1.": false, "q:": false, "q:99.abcdef": false, "17": false,
	} {
		if _, ok, err := rs.Find(t.Context(), "home", id); ok != want || err != nil {
			t.Errorf("%q: %v, %v", id, ok, err)
		}
	}
	if _, ok, _ := rs.Find(t.Context(), "other", r.ID); ok {
		t.Error("another instance finds it")
	}
}

// TestFiles: an answer's file is needed until the answer is over, and no longer.
func TestFiles(t *testing.T) {
	needed := func(db *tabletest.DB) (out []relay.InstanceID) {
		r, ok, err := media.New(db.DB).Get(t.Context(), "f1")
		if !ok || err != nil || (len(r.Needed) == 0) == r.Freed.IsZero() {
			t.Fatalf("%+v %v", r, err)
		}
		return r.Needed
	}
	for name, end := range map[string]func(*Record) bool{
		"sent":    func(r *Record) bool { r.Frame, r.Over, r.Message = nil, time.Unix(9, 0), "m"; return true },
		"late":    func(r *Record) bool { r.Frame, r.Over = nil, time.Unix(9, 0); return true },
		"dropped": func(*Record) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			db, rs := open(t)
			r := answer("home", 10)
			r.File = "f1"
			if _, err := rs.Add(t.Context(), r); !errors.Is(err, table.ErrNotFound) {
				t.Fatalf("a file that is not there: %v", err)
			}
			db.Put(t, media.Bucket, media.Key("f1"), media.Record{
				Attachment: relay.Attachment{ID: "f1"}, For: []relay.InstanceID{"home"}, State: relay.MediaHeld, Freed: db.Time,
			})
			r = add(t, rs, r)
			if got := needed(db); !slices.Equal(got, []relay.InstanceID{"home"}) {
				t.Errorf("needed by %v", got)
			}
			if _, err := rs.Change(t.Context(), r.Number, func(r *Record) bool { r.Begun = db.Time; return true }); err != nil {
				t.Fatal(err)
			}
			if got := needed(db); len(got) != 1 {
				t.Errorf("while it is sent: needed by %v", got)
			}
			if _, err := rs.Change(t.Context(), r.Number, end); err != nil {
				t.Fatal(err)
			}
			if got := needed(db); len(got) != 0 {
				t.Errorf("when it is over: needed by %v", got)
			}
		})
	}
}

// TestSentAreForgotten: after a day, and the oldest of too many before that.
func TestSentAreForgotten(t *testing.T) {
	db, rs := open(t)
	for range maxSent + 3 {
		r := add(t, rs, answer("home", 10))
		if _, err := rs.Change(t.Context(), r.Number, func(r *Record) bool {
			r.Frame, r.Over, r.Message = nil, db.Time, "m"
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := rs.List(t.Context(), Filter{Sent: true})
	if err != nil || len(all) != maxSent || all[0].Number != 4 {
		t.Errorf("%d, the first is %d, %v", len(all), all[0].Number, err)
	}
	r := all[0]
	if r.Past(r.Over.Add(KeepSent)) || !r.Past(r.Over.Add(KeepSent+1)) {
		t.Error("a day is not a day")
	}
	if r.Message = ""; r.Past(r.Over.Add(KeepLate)) || !r.Past(r.Over.Add(KeepLate+1)) {
		t.Error("a week is not a week")
	}
	if r.Over = (time.Time{}); r.Past(db.Time.Add(KeepLate * 9)) {
		t.Error("what waits is past its time")
	}
}
