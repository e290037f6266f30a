package prompt

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var bot = relay.Bot{Platform: "telegram", ID: "1"}

func open(t *testing.T) (*Records, *tabletest.DB) {
	t.Helper()
	db := tabletest.Open(t, Bucket)
	rs := New(db.DB)
	db.Rides = append(db.Rides, rs.Ride)
	return rs, db
}

func (rs *Records) asks(i relay.InstanceID, chat relay.ChatID, id string) Record {
	at := rs.db.Now()
	return Record{Instance: i, Bot: bot, Chat: chat, ID: id, Kind: "choice", At: at, ExpiresAt: at.Add(time.Hour),
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}}}
}

// wantIn fails unless the chat's prompts are these: whose, id and message.
func wantIn(t *testing.T, rs *Records, chat relay.ChatID, want ...string) {
	t.Helper()
	var got []string
	all, err := rs.In(t.Context(), relay.Chat{Bot: bot, ID: chat})
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s %s %s", r.Instance, r.ID, r.Message))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("in %s: %q, %v; want %q", chat, got, err, want)
	}
}

// TestOneIsWithdrawn: what it took the place of stands there again; another's id is refused while it is open.
func TestOneIsWithdrawn(t *testing.T) {
	rs, db := open(t)
	ctx := t.Context()
	first := rs.asks("home", "c", "p")
	if former, err := rs.Add(ctx, first); former != nil || err != nil {
		t.Fatalf("%+v, %v", former, err)
	}
	must.Succeed(t, rs.Posted(ctx, first, "c", "1"))
	if _, err := rs.Add(ctx, rs.asks("kids", "c", "p")); !errors.Is(err, ErrHeld) {
		t.Errorf("another's id: %v, want ErrHeld", err)
	}
	db.Time = db.Time.Add(time.Second)
	again := rs.asks("home", "c", "p")
	former, err := rs.Add(ctx, again)
	if err != nil || former == nil || former.Message != "1" {
		t.Fatalf("%+v, %v", former, err)
	}
	wantIn(t, rs, "c", "home p ")
	must.Succeed(t, rs.Withdraw(ctx, again, former))
	wantIn(t, rs, "c", "home p 1")
	if err := rs.Withdraw(ctx, again, nil); err != nil { // a later question stands there
		t.Fatal(err)
	}
	wantIn(t, rs, "c", "home p 1")
	db.Time = db.Time.Add(time.Hour)
	if former, err := rs.Add(ctx, rs.asks("kids", "c", "p")); err != nil || former == nil || former.Instance != "home" {
		t.Errorf("after its time: %+v, %v", former, err)
	}
	for i, want := range map[relay.InstanceID]int{"home": 0, "kids": 1} {
		if n, err := rs.Count(ctx, i); n != want || err != nil {
			t.Errorf("%s has %d open, %v; want %d", i, n, err, want)
		}
	}
}

// TestOneIsPostedElsewhere: its chat moved while it was posted. Under another's id there nobody can answer it.
func TestOneIsPostedElsewhere(t *testing.T) {
	rs, _ := open(t)
	ctx := t.Context()
	for _, r := range []Record{rs.asks("home", "c", "p"), rs.asks("home", "c", "q"), rs.asks("kids", "super", "q")} {
		if _, err := rs.Add(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for id, m := range map[string]relay.MessageID{"p": "7", "q": "8"} {
		must.Succeed(t, rs.Posted(ctx, rs.asks("home", "c", id), "super", m))
	}
	wantIn(t, rs, "c")
	wantIn(t, rs, "super", "home p 7", "kids q ")
	if n, err := rs.Count(ctx, "home"); n != 1 || err != nil {
		t.Errorf("%d open, %v", n, err)
	}
}

// TestThePressThatAnswers is the first, on the prompt's message, in time; what was answered goes with the commit after
// its buttons.
func TestThePressThatAnswers(t *testing.T) {
	rs, db := open(t)
	ctx := t.Context()
	r := rs.asks("home", "c", "p")
	if _, err := rs.Add(ctx, r); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, rs.Posted(ctx, r, "c", "1"))
	press := func(m relay.MessageID, id relay.EventID) (ok bool) {
		t.Helper()
		err := db.Change(ctx, "press", func(w *table.Writer) error {
			p := &Press{Prompt: r, Event: id, Message: m}
			asked, in, err := Takes(w.Tx, p, db.Time)
			if ok = in; err != nil || !ok {
				return err
			}
			return Take(w, asked, p, db.Time)
		})
		must.Succeed(t, err)
		return ok
	}
	if press("2", "e1") {
		t.Error("a press on another message answers")
	}
	if !press("1", "e2") || press("1", "e3") {
		t.Error("the first press does not answer, or the second does")
	}
	got, err := rs.Answered(ctx)
	if err != nil || len(got) != 1 || got[0].Answer.Event != "e2" {
		t.Fatalf("%+v, %v", got, err)
	}
	rs.Cleared(got[0])
	wantIn(t, rs, "c", "home p 1")
	db.Commit(t)
	wantIn(t, rs, "c")
	if n := db.Keys(t, table.Index); n != 0 {
		t.Errorf("%d keys are left in the index", n)
	}
	late := rs.asks("home", "c", "q")
	if _, err := rs.Add(ctx, late); err != nil {
		t.Fatal(err)
	}
	db.Time = late.ExpiresAt
	if r = late; press("", "e4") {
		t.Error("a press after its time answers")
	}
}

// TestSoManyAreOpen: one more closes the oldest of its instance, not one that was answered, and nobody else's.
func TestSoManyAreOpen(t *testing.T) {
	rs, db := open(t)
	ctx := t.Context()
	add := func(r Record) {
		t.Helper()
		if _, err := rs.Add(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	add(rs.asks("kids", "c", "k"))
	answered := rs.asks("home", "c", "answered")
	add(answered)
	err := db.Change(ctx, "answer", func(w *table.Writer) error {
		return Take(w, answered, &Press{Prompt: answered, Event: "e"}, db.Time)
	})
	must.Succeed(t, err)
	for n := range MaxOpen + 2 {
		db.Time = db.Time.Add(time.Second)
		add(rs.asks("home", "many", fmt.Sprint("p", n)))
	}
	if n, err := rs.Count(ctx, "home"); n != MaxOpen || err != nil {
		t.Errorf("%d open, %v; want %d", n, err, MaxOpen)
	}
	for id, want := range map[string]bool{"p0": false, "p1": false, "p2": true} {
		if _, ok, err := rs.At(ctx, relay.Chat{Bot: bot, ID: "many"}, id); ok != want || err != nil {
			t.Errorf("%s: %t, %v; want %t", id, ok, err, want)
		}
	}
	wantIn(t, rs, "c", "home answered ", "kids k ")
}
