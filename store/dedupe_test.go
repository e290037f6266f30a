package store

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestDamagedSeenMarkIsNotBelieved(t *testing.T) { // invariants 7 and 8
	for name, change := range map[string]func(m []byte){
		"a flipped bit":           func(m []byte) { m[2] ^= 4 },
		"a flipped checksum":      func(m []byte) { m[14] ^= 4 },
		"nothing":                 func(m []byte) { clear(m) },
		"another's mark":          func(m []byte) { e2 := dedupe.Of(bot, "e2"); copy(m, e2[:]) },
		"another's, checksum too": func(m []byte) { copy(m, dedupe.Encode([]dedupe.Mark{dedupe.Of(bot, "e2")})) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			var logged bytes.Buffer
			db := openTest(t, Options{Now: c.now, Log: slog.New(slog.NewTextHandler(&logged, nil))})
			ctx := ctxOf(t)
			enroll(t, db, "i1")
			acceptOne(t, db, event("e1", 300), "i1")
			acceptOne(t, db, event("e2", 300), "i1")
			err := db.change(ctx, nil, "test", func(x *tx) error { return spoilMark(x, dedupe.Of(bot, "e1"), change) })
			must.Succeed(t, err)
			db.Seen.Forget()
			c.add(day)
			logged.Reset()
			if seen, err := db.Seen.Has(ctx, bot, "e1"); seen || err != nil || db.Stats().BadMarks != 1 {
				t.Errorf("seen %v, %v, %d damaged marks; want it unseen and one", seen, err, db.Stats().BadMarks)
			}
			if out := acceptOne(t, db, event("e1", 300), "i1"); out.Duplicate || out.Buffers[0].Seq != 3 {
				t.Errorf("the event again: %+v; want it stored", out)
			}
			if text := logged.String(); strings.Count(text, "bucket hot/seen, key") != 2 {
				t.Errorf("the log does not name the marks' record twice: %s", text)
			}
			// The good mark of now is the only one left.
			if out := acceptOne(t, db, event("e1", 300), "i1"); !out.Duplicate {
				t.Error("the event was stored a third time")
			}
			if seen, err := db.Seen.Has(ctx, bot, "e1"); !seen || err != nil || db.Stats().BadMarks != 2 {
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
	must.Succeed(t, db.change(ctxOf(t), nil, "test", func(x *tx) error {
		return spoilMark(x, dedupe.Of(bot, "e1"), func(m []byte) { m[0] ^= 1 })
	}))
	db.Seen.Forget()
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

// spoilMark changes m where it is stored, and nothing else.
func spoilMark(x *tx, m dedupe.Mark, change func(stored []byte)) error {
	for _, b := range []string{dedupe.Newest, dedupe.Runs} {
		for _, k := range table.KeysUnder(x.Tx, b, nil) {
			v := bytes.Clone(x.Bucket([]byte(b)).Get(k))
			for at := boltfile.EnvelopeSize; at+dedupe.Stored <= len(v); at += dedupe.Stored {
				if bytes.Equal(v[at:at+dedupe.Stored], dedupe.Encode([]dedupe.Mark{m})) {
					change(v[at : at+dedupe.Stored])
					return x.PutSealed(b, k, v)
				}
			}
		}
	}
	return errors.New("there is no such mark")
}
