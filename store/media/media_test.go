package media

import (
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestWhoNeedsAFile: each instance whose entry names it, and from the last of them on nobody, as of then.
func TestWhoNeedsAFile(t *testing.T) {
	db := tabletest.Open(t, Bucket)
	rs := New(db.DB)
	ev := relay.Event{ID: "e1", Bot: relay.Bot{Platform: "telegram", ID: "1"}, Attachments: []relay.Attachment{{ID: "a"}, {ID: "b"}, {}}}
	change := func(fn func(*table.Writer) error) {
		t.Helper()
		must.Succeed(t, db.Change(t.Context(), "test", fn))
	}
	release := func(i relay.InstanceID, want int) {
		t.Helper()
		var held int
		change(func(w *table.Writer) (err error) {
			held, err = Release(w, i, ev.Attachments, db.Time)
			return err
		})
		if held != want {
			t.Errorf("%d of what %s lets go of are held, want %d", held, i, want)
		}
	}
	get := func(id relay.MediaID) Record {
		t.Helper()
		r, ok, err := rs.Get(t.Context(), id)
		if !ok || err != nil {
			t.Fatalf("%s: %t, %v", id, ok, err)
		}
		return r
	}
	for _, i := range []relay.InstanceID{"home", "kids"} {
		change(func(w *table.Writer) error { return Want(w, i, ev, db.Time) })
	}
	err := rs.Change(t.Context(), func(r *Record) bool { r.State = relay.MediaHeld; return true }, "a", "unknown")
	must.Succeed(t, err)
	release("home", 1)
	if a := get("a"); !slices.Equal(a.Needed, []relay.InstanceID{"kids"}) || !a.Freed.IsZero() {
		t.Errorf("while kids need it: %+v", a)
	}
	db.Time = db.Time.Add(time.Minute)
	release("kids", 1)
	if a := get("a"); len(a.Needed) != 0 || !a.Freed.Equal(db.Time) || len(a.For) != 2 {
		t.Errorf("nobody needs it: %+v", a)
	}
	change(func(w *table.Writer) error { return Strip(w, "home", db.Time) })
	change(func(w *table.Writer) error { return Want(w, "kids", ev, db.Time) })
	a, b := get("a"), get("b")
	if !slices.Equal(a.For, []relay.InstanceID{"kids"}) || a.State != relay.MediaHeld || b.State != relay.MediaWaiting || !a.Freed.IsZero() {
		t.Errorf("wanted again: %+v, %+v", a, b)
	}
	must.Succeed(t, rs.Change(t.Context(), func(*Record) bool { return false }, "a"))
	if all, err := rs.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != "b" || all[0].Place != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestEntriesAreRecounted: the records of files say what the entries do.
func TestEntriesAreRecounted(t *testing.T) {
	db := tabletest.Open(t, Bucket)
	rs := New(db.DB)
	for _, r := range []Record{
		{Attachment: relay.Attachment{ID: "gone"}, Needed: []relay.InstanceID{"home"}},
		{Attachment: relay.Attachment{ID: "kids"}, Needed: []relay.InstanceID{"kids"}},
	} {
		must.Succeed(t, rs.Add(t.Context(), r))
	}
	err := db.Change(t.Context(), "recount", func(w *table.Writer) error {
		return Recount(w, "home", []relay.Event{{ID: "e1", Attachments: []relay.Attachment{{ID: "new"}}}}, nil, db.Time)
	})
	must.Succeed(t, err)
	for id, want := range map[relay.MediaID][]relay.InstanceID{"gone": {}, "kids": {"kids"}, "new": {"home"}} {
		r, ok, err := rs.Get(t.Context(), id)
		if !ok || err != nil || !slices.Equal(r.Needed, want) || r.Freed.IsZero() != (len(want) > 0) {
			t.Errorf("%s: %+v, %t, %v", id, r, ok, err)
		}
	}
}
