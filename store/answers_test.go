package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func answer(t testing.TB, db *DB, i relay.InstanceID, g relay.GatewayID, size int) outbox.Record {
	t.Helper()
	r, err := db.Outbox.Add(ctxOf(t), outbox.Record{
		Instance: i, Gateway: g, Bot: relay.Bot{Platform: "loop", ID: "b"}, Chat: "c", Op: relay.OpSend, At: db.now(),
		Frame: json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), size)) + `"`),
	})
	must.Succeed(t, err)
	return r
}

// answersOf are the instances of all answers, sent ones too.
func answersOf(t testing.TB, db *DB) (out []string) {
	t.Helper()
	all, err := db.Outbox.List(ctxOf(t), outbox.Filter{Sent: true})
	must.Succeed(t, err)
	for _, r := range all {
		out = append(out, fmt.Sprintf("%s %s", r.Instance, r.Gateway))
	}
	return out
}

// TestAnswersTakeSoMuchRoom: 16 MiB of an instance, which are its own.
func TestAnswersTakeSoMuchRoom(t *testing.T) {
	db := openTest(t, Options{})
	const large = 1<<20 - 2<<10
	for range 16 {
		answer(t, db, "i1", "g1", large)
	}
	r := outbox.Record{Instance: "i1", Frame: json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), large)) + `"`)}
	if _, err := db.Outbox.Add(ctxOf(t), r); !errors.Is(err, outbox.ErrTooMany) {
		t.Errorf("the 17.: %v", err)
	}
	set := func(frame json.RawMessage) error {
		_, err := db.Outbox.Change(ctxOf(t), 1, func(r *outbox.Record) bool { r.Frame = frame; return true })
		return err
	}
	if err := set(json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), large+64<<10)) + `"`)); !errors.Is(err, outbox.ErrTooMany) {
		t.Errorf("a longer one in the place of the first: %v", err)
	}
	if err := errors.Join(set(json.RawMessage(`"x"`)), set(r.Frame)); err != nil {
		t.Errorf("a shorter one, and then one as long as it was: %v", err)
	}
	answer(t, db, "i2", "g2", large)
}

// TestAnswersGoWithTheirGateway: revoked, a gateway says nothing more, and of an instance without one nothing stays, not
// even a file that waits with an answer.
func TestAnswersGoWithTheirGateway(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	enroll(t, db, "i1")
	enroll(t, db, "i2")
	one, err := db.Gateways(ctxOf(t))
	if err != nil || len(one) != 2 {
		t.Fatal(one, err)
	}
	g := map[relay.InstanceID]relay.GatewayID{one[0].Instance: one[0].ID, one[1].Instance: one[1].ID}
	must.Succeed(t, db.Media.Add(ctxOf(t), media.Record{Attachment: relay.Attachment{ID: "f1"}, For: []relay.InstanceID{"i1"}, State: relay.MediaHeld, Freed: c.now()}))
	answer(t, db, "i1", g["i1"], 10)
	answer(t, db, "i2", g["i2"], 10)
	withFile, err := db.Outbox.Add(ctxOf(t), outbox.Record{Instance: "i1", Gateway: "another", File: "f1", Frame: json.RawMessage(`{}`)})
	must.Succeed(t, err)
	wantFiles(t, db, "while it waits", "f1 held [i1] [i1]")
	if _, err := db.Sweep(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, db, "after a sweep", "f1 held [i1] [i1]")
	if _, err := db.Revoke(ctxOf(t), nil, "i1", g["i1"]); err != nil {
		t.Fatal(err)
	}
	if got := answersOf(t, db); !slices.Equal(got, []string{"i2 " + string(g["i2"])}) {
		t.Errorf("left are %q; the one with a file was %s", got, withFile.ID)
	}
	wantFiles(t, db, "revoked", "f1 held [] [] freed")
}

// TestAnswersAreDroppedByTheOperator: those named, or all that wait, with a row of who did it.
func TestAnswersAreDroppedByTheOperator(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	a, b, c := answer(t, db, "i1", "g", 10), answer(t, db, "i1", "g", 10), answer(t, db, "i1", "g", 10)
	other := answer(t, db, "i2", "g", 10)
	if _, err := db.Outbox.Change(ctxOf(t), c.Number, func(r *outbox.Record) bool {
		r.Frame, r.Over, r.Message = nil, db.now(), "m1"
		return true
	}); err != nil {
		t.Fatal(err)
	}
	row := &audit.Entry{Action: "buffer.out.drop", Instance: "i1"}
	if n, err := db.DropAnswers(ctxOf(t), row, "i1", a.ID, other.ID); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := db.DropAnswers(ctxOf(t), row, "i1"); n != 1 || err != nil {
		t.Errorf("the rest: %d, %v", n, err)
	}
	if n, err := db.DropAnswers(ctxOf(t), row, "i1"); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	if _, ok, _ := db.Outbox.Find(ctxOf(t), "i1", b.ID); ok {
		t.Error("it is still there")
	}
	if _, ok, _ := db.Outbox.Find(ctxOf(t), "i1", c.ID); !ok {
		t.Error("what was sent is not known any more")
	}
	if rows, err := db.Audit.List(ctxOf(t), 0); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestRestoredAnswersAreInDoubt: those of a backup may have been sent since it was made.
func TestRestoredAnswersAreInDoubt(t *testing.T) {
	c := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: c.now})
	r := answer(t, db, "i1", "g", 10)
	var backup bytes.Buffer
	if _, err := db.Backup(ctxOf(t), &backup); err != nil {
		t.Fatal(err)
	}
	closeChecked(t, db)
	if _, err := Restore(path, &backup, Options{Now: c.now}); err != nil {
		t.Fatal(err)
	}
	db = reopen(t, path, Options{Now: c.now})
	defer closeChecked(t, db)
	if got, ok, err := db.Outbox.Find(ctxOf(t), "i1", r.ID); !ok || err != nil || !got.Begun.Equal(r.At) || got.Told {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSweepForgetsAnswers: those that were sent a day ago, and those nobody could be told of for a week.
func TestSweepForgetsAnswers(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	for _, m := range []relay.MessageID{"m1", ""} {
		r := answer(t, db, "i1", "g", 10)
		if _, err := db.Outbox.Change(ctxOf(t), r.Number, func(r *outbox.Record) bool {
			r.Frame, r.Over, r.Message = nil, c.now(), m
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	answer(t, db, "i1", "g", 10)
	for after, want := range []int{3, 2, 1} {
		c.add([]time.Duration{time.Hour, day, 6 * day}[after])
		if _, err := db.Sweep(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		if got := answersOf(t, db); len(got) != want {
			t.Errorf("%d. sweep: %q are left, want %d", after+1, got, want)
		}
	}
}
