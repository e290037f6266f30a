package capability

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var bot = relay.Bot{Platform: "discord", ID: "1"}

func open(t *testing.T) (*Records, *tabletest.DB) {
	t.Helper()
	db := tabletest.Open(t, Bucket)
	rs := New(db.DB)
	db.Rides = append(db.Rides, rs.Ride)
	return rs, db
}

// holds stores capabilities of events that come now, and returns what had to go.
func holds(t *testing.T, db *tabletest.DB, all ...Record) (lost []Record) {
	t.Helper()
	err := db.Change(t.Context(), "hold", func(w *table.Writer) (err error) {
		lost, err = Hold(w, db.Time, all...)
		return err
	})
	must.Succeed(t, err)
	return lost
}

func came(db *tabletest.DB, i relay.InstanceID, e string) Record {
	return Record{Instance: i, Bot: bot, Event: relay.EventID(e), ExpiresAt: db.Time.Add(15 * time.Minute)}
}

// TestWhatBecomesOfOne is on disk with the next commit, and of two words the greater counts.
func TestWhatBecomesOfOne(t *testing.T) {
	rs, db := open(t)
	a, b := came(db, "home", "a"), came(db, "home", "b")
	holds(t, db, a, b)
	commits := db.File.Stats().Commits
	rs.Became(a, Answered)
	rs.Became(b, Useless)
	rs.Became(b, Answered)
	rs.Became(came(db, "home", "unknown"), Answered)
	if n := db.File.Stats().Commits - commits; n != 0 {
		t.Errorf("%d commits", n)
	}
	db.Commit(t)
	got, ok, err := rs.In(t.Context(), "home", bot, "a")
	if !got.Answered || !ok || err != nil {
		t.Errorf("a: %+v, %t, %v", got, ok, err)
	}
	if _, ok, err := rs.In(t.Context(), "home", bot, "b"); ok || err != nil {
		t.Errorf("b: %t, %v", ok, err)
	}
	if err := rs.Remove(t.Context(), []Record{a}); err != nil || db.Keys(t, Bucket) != 0 {
		t.Errorf("%v; %d are left", err, db.Keys(t, Bucket))
	}
}

// TestRoomIsMade: those that have expired go first and are not lost, then the oldest, of the same instance.
func TestRoomIsMade(t *testing.T) {
	rs, db := open(t)
	holds(t, db, came(db, "kids", "k"), came(db, "home", "expired"))
	db.Time = db.Time.Add(15 * time.Minute)
	for n := range Max - 1 {
		holds(t, db, came(db, "home", fmt.Sprintf("%03d", n)))
		db.Time = db.Time.Add(time.Second)
	}
	lost := holds(t, db, came(db, "home", "x"), came(db, "home", "y"))
	if len(lost) != 1 || lost[0].Event != "000" {
		t.Errorf("lost %+v, want 000", lost)
	}
	all, err := rs.Of(t.Context(), "home")
	if err != nil || len(all) != Max || all[0].Event != "001" {
		t.Errorf("%d, %v, the first %+v", len(all), err, all[0])
	}
	if n := db.Keys(t, Bucket); n != Max+1 {
		t.Errorf("%d are on disk, want the neighbour's too", n)
	}
}

// TestAVerdictReleasesOne, or drops it.
func TestAVerdictReleasesOne(t *testing.T) {
	rs, db := open(t)
	for e, gets := range map[string]bool{"a": true, "b": false} {
		r := came(db, "home", e)
		r.Undecided = true
		holds(t, db, r)
		err := db.Change(t.Context(), "release", func(w *table.Writer) error { return Release(w, "home", bot, r.Event, gets) })
		must.Succeed(t, err)
		if got, ok, err := rs.In(t.Context(), "home", bot, r.Event); ok != gets || got.Undecided || err != nil {
			t.Errorf("%s: %+v, %t, %v", e, got, ok, err)
		}
	}
}
