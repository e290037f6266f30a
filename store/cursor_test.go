package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// advanced hands in a batch of which nothing but the cursor is to be stored.
func advanced(t *testing.T, db *DB, b relay.Bot, cursor string) {
	t.Helper()
	if _, err := db.Accept(ctxOf(t), Accept{Bot: b, Cursor: []byte(cursor)}); err != nil {
		t.Fatal(err)
	}
}

func cursorOf(t *testing.T, db *DB, b relay.Bot) string {
	t.Helper()
	cursor, err := db.Cursor(ctxOf(t), b)
	must.Succeed(t, err)
	return string(cursor)
}

func TestStrangersDoNotMakeTheDiskWork(t *testing.T) { // invariant 9
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(path, Options{})
		must.Succeed(t, err)
		enroll(t, db, "i1")
		other := relay.Bot{Platform: "loop", ID: "other"}
		before, began := db.Stats().Commits, time.Now()
		for n := range 1000 { // ten minutes of dropped messages, from two bots
			b := bot
			if n%3 == 0 {
				b = other
			}
			advanced(t, db, b, strconv.Itoa(n))
			if got := cursorOf(t, db, b); got != strconv.Itoa(n) {
				t.Fatalf("the cursor is %q, want %d", got, n)
			}
			time.Sleep(600 * time.Millisecond)
			synctest.Wait()
		}
		if n, minutes := db.Stats().Commits-before, uint64(time.Since(began)/time.Minute); n > minutes || n+1 < minutes {
			t.Errorf("%d commits in %d minutes, want one a minute", n, minutes)
		}
		time.Sleep(2 * cursorTime) // the last ones are on disk by now
		before = db.Stats().Commits
		advanced(t, db, bot, "998") // which it is
		time.Sleep(time.Hour)
		if n := db.Stats().Commits - before; n != 0 {
			t.Errorf("%d commits while nobody wrote", n)
		}
		copied := openCopy(t, read(t, path))
		if a, b := cursorOf(t, copied, bot), cursorOf(t, copied, other); a != "998" || b != "999" {
			t.Errorf("killed when idle: cursors %s and %s, want 998 and 999", a, b)
		}
		closeChecked(t, copied)
		closeChecked(t, db)
	})
}

func TestCursorRidesWithTheNextWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	onDisk := func() string { return cursorOf(t, openCopy(t, read(t, path)), bot) }
	advanced(t, db, bot, "1")
	if got := onDisk(); got != "" {
		t.Errorf("killed at once: cursor %q, want none", got)
	}
	for n, write := range map[string]func() error{
		"2": func() error { return db.PutBlob(ctxOf(t), "x", []byte("anybody's")) },
		"3": func() error { return second(db.Accept(ctxOf(t), acceptFor(event("e3", 300), "i1"))) },
		"4": func() error { return db.Enroll(ctxOf(t), nil, Gateway{ID: "i2"}, Instance{ID: "i2", Tenant: "home"}) },
		// Its own: what waits gives way.
		"5": func() error {
			advanced(t, db, bot, "older")
			a := acceptFor(event("e5", 300), "i1")
			a.Cursor = []byte("5")
			return second(db.Accept(ctxOf(t), a))
		},
	} {
		advanced(t, db, bot, n)
		before := db.Stats().Commits
		must.Succeed(t, write())
		if got := onDisk(); got != n || cursorOf(t, db, bot) != n || db.Stats().Commits != before+1 {
			t.Errorf("after %d commits the cursor on disk is %q, want %s with the write", db.Stats().Commits-before, got, n)
		}
	}
	advanced(t, db, bot, "6")
	if _, err := db.Accept(ctxOf(t), Accept{Bot: bot, Cursor: []byte("6"), Save: true}); err != nil || onDisk() != "6" {
		t.Errorf("one worth a write: %v, on disk %s", err, onDisk())
	}
	advanced(t, db, bot, "7")
	must.Succeed(t, db.Close())
	if got := cursorOf(t, reopen(t, path, Options{}), bot); got != "7" {
		t.Errorf("after the stop: cursor %q, want 7", got)
	}
}

// TestCursorIsNeverPastAnEvent: whatever is accepted and dropped, and whenever the process dies.
func TestCursorIsNeverPastAnEvent(t *testing.T) { // invariant 1
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	dice := rand.New(rand.NewPCG(5, 18))
	bots := []relay.Bot{bot, {Platform: "loop", ID: "other"}}
	stored := make(map[relay.Bot][]int) // the events of each that were not dropped
	for n := range 120 {
		b := bots[dice.IntN(2)]
		a := Accept{Bot: b, Cursor: []byte(strconv.Itoa(n))}
		if dice.IntN(4) == 0 {
			e := event(fmt.Sprint(n), 300)
			e.Bot = b
			a.Items = []AcceptItem{{Delivery: e, Frame: frameOf(e), To: []Recipient{{Instance: "i1"}}}}
			stored[b] = append(stored[b], n)
		}
		bad := line(t, db, func(x *tx) error { return errors.Join(putBlob("half")(x), errors.New("bad")) })
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			t.Fatal(err)
		}
		bad[0].Wait()
		if dice.IntN(3) > 0 {
			continue
		}
		copied := openCopy(t, read(t, path))
		for _, b := range bots {
			at, err := strconv.Atoi(cursorOf(t, copied, b))
			if err != nil {
				at = -1
			}
			for _, n := range stored[b] {
				seen, err := copied.Seen.Has(ctxOf(t), b, relay.EventID(fmt.Sprint(n)))
				if err != nil || !seen {
					t.Errorf("event %d is not on disk: %v", n, err)
				}
				if n > at { // it was accepted, and its cursor with it
					t.Errorf("the cursor of %s on disk is %d, and %d is stored", b, at, n)
				}
			}
		}
		closeChecked(t, copied)
	}
}

// TestFailedBatchMovesNoCursor: neither in memory nor later on disk.
func TestFailedBatchMovesNoCursor(t *testing.T) { // invariant 3
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e0", 300), "i1")
	advanced(t, db, bot, "1")
	spoil(t, db, bucketConversations, conversationKey(Conversation{Instance: "i1", Bot: bot, Chat: "c1"}))
	a := acceptFor(event("e1", 300), "i1")
	a.Cursor = []byte("2")
	if _, err := db.Accept(ctxOf(t), a); !errors.Is(err, ErrDamaged) {
		t.Fatalf("an event was stored beside a damaged conversation: %v", err)
	}
	if got := cursorOf(t, db, bot); got != "1" {
		t.Errorf("the cursor is %q, want 1", got)
	}
}

func TestCursorsOutliveAFullDisk(t *testing.T) { // invariant 2
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db, d := onDisk(t, path, Options{})
		defer d.close()
		enroll(t, db, "i1")
		roomy(t, db)
		gone := acceptOne(t, db, event("e1", 300), "i1").Buffers[0]
		advanced(t, db, bot, "7")
		d.becomes("/dev/full", os.O_RDWR)
		if _, err := db.Accept(ctxOf(t), acceptFor(event("e2", 300), "i1")); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("a full disk took an event: %v", err)
		}
		if got := cursorOf(t, db, bot); got != "7" {
			t.Errorf("with a full disk the cursor is %q, want 7", got)
		}
		time.Sleep(2 * cursorTime) // it is due, and cannot be stored
		d.heals()
		time.Sleep(2 * 30 * time.Second)
		must.Succeed(t, acknowledge(ctxOf(t), db, "i1", gone))
		copied := openCopy(t, read(t, path))
		if got := cursorOf(t, copied, bot); got != "7" {
			t.Errorf("with room again the cursor on disk is %q, want 7", got)
		}
		closeChecked(t, copied)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
