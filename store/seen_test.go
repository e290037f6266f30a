package store

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestDamagedSeenMarkIsNotBelieved(t *testing.T) { // invariants 7 and 8
	for name, change := range map[string]func(v []byte) []byte{
		"a flipped bit":  func(v []byte) []byte { v[2] ^= 4; return v },
		"no value":       func([]byte) []byte { return []byte{} },
		"cut off":        func(v []byte) []byte { return v[:3] },
		"another's mark": func([]byte) []byte { return markValue(seenKey(bot, "e2")) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			var logged bytes.Buffer
			db := openTest(t, Options{Now: c.now, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			ctx := ctxOf(t)
			enroll(t, db, "i1")
			acceptOne(t, db, event("e1", 300), "i1")
			acceptOne(t, db, event("e2", 300), "i1")
			then, k := seenBucket(c.now()), seenKey(bot, "e1")
			err := db.write(ctx, func(x *tx) error {
				return x.putSealed(then, k, change(bytes.Clone(x.Bucket([]byte(then)).Get(k))))
			})
			if err != nil {
				t.Fatal(err)
			}
			c.add(day)
			logged.Reset()
			if seen, err := db.Seen(ctx, bot, "e1"); seen || err != nil || db.Stats().BadMarks != 1 {
				t.Errorf("seen %v, %v, %d damaged marks; want it unseen and one", seen, err, db.Stats().BadMarks)
			}
			if out := acceptOne(t, db, event("e1", 300), "i1"); out.Duplicate || out.Buffers[0].Seq != 3 {
				t.Errorf("the event again: %+v; want it stored", out)
			}
			if text := logged.String(); strings.Count(text, "hot/seen/"+c.now().Add(-day).Format(time.DateOnly)) != 2 || strings.Count(text, "e1") != 2 {
				t.Errorf("the log does not name the mark twice: %s", text)
			}
			// The good mark of now is the only one left.
			if out := acceptOne(t, db, event("e1", 300), "i1"); !out.Duplicate {
				t.Error("the event was stored a third time")
			}
			if seen, err := db.Seen(ctx, bot, "e1"); !seen || err != nil || db.Stats().BadMarks != 2 {
				t.Errorf("seen %v, %v, %d damaged marks; want it seen and two", seen, err, db.Stats().BadMarks)
			}
			if out := acceptOne(t, db, event("e2", 300), "i1"); !out.Duplicate {
				t.Error("the neighbour's mark is gone")
			}
		})
	}
}

func TestDamagedSeenMarkIsNamedOnceThoughTheOpRunsAgain(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	spoil(t, db, seenBucket(db.now()), seenKey(bot, "e1"))
	release := hold(t, db)
	done := make(chan ItemOutcome)
	go func() { done <- acceptOne(t, db, event("e1", 300), "i1") }()
	waiting(db, 1)
	bad := line(t, db, func(x *tx) error { return errors.Join(putBlob("half")(x), errors.New("bad")) })
	release()
	if err := bad[0].Wait(); err == nil {
		t.Error("the failing op did not fail")
	}
	if out := <-done; out.Duplicate || db.Stats().BadMarks != 1 {
		t.Errorf("%+v, %d damaged marks; want it stored and one", out, db.Stats().BadMarks)
	}
}
