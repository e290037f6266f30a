package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A power cut leaves what was synced and any part of what was not. bbolt syncs twice per commit:
// behind the data pages, and behind the meta page. So between two commits the disk can hold, page
// by page and sector by sector:
//
//   - before the first sync: the old meta page, and any of the sectors that the commit changed,
//     in a file of the old or the new size
//   - after it: all data pages, and the meta page old, torn or new
//
// The states are computed from the file as it was after each commit.

const sector = 512

// step is the file after a commit, and what was confirmed by then.
type step struct {
	file []byte
	want string
}

// contents is what has been confirmed of a database, in one line.
func contents(t *testing.T, db *DB) string {
	t.Helper()
	s := fmt.Sprint(blobNames(t, db))
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		s += " " + laneOf(t, db, i) + deadOf(t, db, i)
	}
	return s
}

// history runs a database through commits of every kind, each of which must be all there or not
// at all after a power cut.
func history(t *testing.T) []step {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{MaxSize: 8 << 20, Limits: Limits{MaxEntries: 5}}) // grows by 128 KiB
	var steps []step
	note := func() { steps = append(steps, step{read(t, path), contents(t, db)}) }
	enroll(t, db, "i1", "i2")
	note()
	sizes := map[int]bool{}
	for n := range 45 {
		switch {
		case n%9 == 4: // over many pages, so that the file grows
			if err := db.PutBlob(ctxOf(t), fmt.Sprintf("blob%02d", n), bytes.Repeat([]byte{byte(n)}, 40_000)); err != nil {
				t.Fatal(err)
			}
		case n%4 == 3:
			e, ok, err := db.NextDelivery(ctxOf(t), "i1", 0)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if err := db.DropDelivery(ctxOf(t), "i1", e.Buffer); err != nil {
				t.Fatal(err)
			}
		default:
			acceptOne(t, db, event(fmt.Sprintf("e%02d", n), 900), "i1", "i2")
		}
		note()
		sizes[len(steps[len(steps)-1].file)] = true
	}
	if len(sizes) < 2 {
		t.Fatal("the file never grew")
	}
	return steps
}

// afterCut opens what a power cut left and says what is in it. goOn: and writes to it, and checks it.
func afterCut(t *testing.T, path string, file []byte, goOn bool) string {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{MaxSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	got := contents(t, db)
	if !goOn {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		return got
	}
	if err := db.PutBlob(ctxOf(t), "next", nil); err != nil {
		t.Error(err)
	}
	closeChecked(t, db)
	return got
}

func TestPowerCuts(t *testing.T) { // invariants 1 and 3
	steps := history(t)
	path := filepath.Join(t.TempDir(), "test.db")
	dice := rand.New(rand.NewPCG(3, 4))
	states := 0
	for n := range len(steps) - 1 {
		old, updated := steps[n], steps[n+1]
		try := func(what string, file []byte, allowed ...string) {
			t.Helper()
			states++
			if got := afterCut(t, path, file, states%4 == 0); !slices.Contains(allowed, got) {
				t.Fatalf("commit %d, %s: got %s, want one of %q", n+1, what, got, allowed)
			}
		}
		grown := append(slices.Clone(old.file), make([]byte, len(updated.file)-len(old.file))...)
		data := slices.Clone(updated.file) // all but the meta page
		copy(data[:2*pageSize], old.file)
		newest := 0
		if bytes.Equal(old.file[:pageSize], updated.file[:pageSize]) {
			newest = pageSize
		}
		var changed []int // sectors of data pages
		for at := 2 * pageSize; at < len(data); at += sector {
			if !bytes.Equal(grown[at:at+sector], data[at:at+sector]) {
				changed = append(changed, at)
			}
		}
		// Before the first sync.
		try("nothing", old.file, old.want)
		try("only the new size", grown, old.want)
		for range 30 {
			file := slices.Clone(grown)
			share := dice.Float64()
			whole := dice.IntN(2) == 0 // pages instead of sectors
			take := make(map[int]bool)
			for _, at := range changed {
				unit := at
				if whole {
					unit = at / pageSize
				}
				if _, ok := take[unit]; !ok {
					take[unit] = dice.Float64() < share
				}
				if take[unit] {
					copy(file[at:at+sector], data[at:at+sector])
				}
			}
			try("some of the data", file, old.want)
		}
		// Between the syncs.
		try("all data", data, old.want)
		for range 6 {
			file := slices.Clone(data)
			from := newest + pageHeader + dice.IntN(metaSize)
			torn := updated.file[newest:from] // the first bytes of it arrived
			copy(file[newest:], torn)
			try("a torn meta page", file, old.want, updated.want)
			clear(file[newest : newest+sector])
			try("an empty meta page", file, old.want)
		}
		// After the second.
		try("everything", updated.file, updated.want)
	}
	t.Logf("%d states over %d commits", states, len(steps)-1)
}

// TestLostPages: a disk that says it has synced, and has lost a page of messages. What then stands
// in that place is a page that was once right, so only the lane's sum tells.
func TestLostPages(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	for n := range 40 {
		acceptOne(t, db, event(fmt.Sprintf("e%02d", n), 900), "i1")
	}
	var steps []step
	for n := range 12 { // as many as before, of the same size
		e, _, err := db.NextDelivery(ctxOf(t), "i1", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.DropDelivery(ctxOf(t), "i1", e.Buffer); err != nil {
			t.Fatal(err)
		}
		acceptOne(t, db, event(fmt.Sprintf("f%02d", n), 900), "i1")
		steps = append(steps, step{read(t, path), laneOf(t, db, "i1")})
	}
	at, noticed := filepath.Join(t.TempDir(), "test.db"), 0
	for n := range len(steps) - 1 {
		updated := steps[n+1]
		eachLostPage(t, steps[n].file, updated.file, func(p int, file []byte) {
			if err := os.WriteFile(at, file, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := Open(at, Options{})
			if err != nil {
				noticed++
				return
			}
			defer closeChecked(t, db)
			if got := laneOf(t, db, "i1"); got != updated.want && db.Stats().Damaged == 0 {
				t.Errorf("commit %d without page %d: %s, want %s, and nobody says so", n+1, p, got, updated.want)
			}
			if db.Stats().Damaged > 0 {
				noticed++
			}
		})
	}
	if noticed == 0 {
		t.Error("no page was missed")
	}
	t.Logf("%d lost pages were noticed", noticed)
}

// eachLostPage calls do with updated as it is when one of the pages that changed since old did not
// reach the disk. The meta pages do, and so does the root, which the meta page answers for.
func eachLostPage(t *testing.T, old, updated []byte, do func(page int, file []byte)) {
	t.Helper()
	m := newestMeta(t, updated)
	for p := 2; p*pageSize < len(old); p++ {
		was, is := old[p*pageSize:][:pageSize], updated[p*pageSize:][:pageSize]
		if bytes.Equal(was, is) || p == int(m.root) {
			continue
		}
		file := slices.Clone(updated)
		copy(file[p*pageSize:], was)
		do(p, file)
	}
}

// TestLostPagesOfAnyBucket: outside the lanes only the digest tells.
func TestLostPagesOfAnyBucket(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	bind := func(n int, dm relay.ChatID) {
		t.Helper()
		b := Binding{Platform: "loop", User: relay.UserID(fmt.Sprintf("u%03d", n)), Instance: "i1", DMChat: dm, BoundAt: time.Unix(1, 0)}
		if err := db.Bind(ctxOf(t), b); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		bind(n, "chat000")
	}
	var files [][]byte
	for n := range 12 { // the same size, so that an older page fits in the place of a newer one
		bind(n*8, relay.ChatID(fmt.Sprintf("chat%03d", n)))
		files = append(files, read(t, path))
	}
	at, silent, noticed := filepath.Join(t.TempDir(), "test.db"), 0, 0
	for n := range len(files) - 1 {
		eachLostPage(t, files[n], files[n+1], func(p int, file []byte) {
			if err := os.WriteFile(at, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if VerifyFile(at) != nil {
				noticed++
			}
			db, err := Open(at, Options{})
			if err != nil {
				return
			}
			defer closeChecked(t, db)
			if db.Stats().Damaged > 0 {
				if err := VerifyFile(at); err != nil {
					t.Errorf("commit %d without page %d: it was named, and is not forgotten: %v", n+1, p, err)
				}
				return
			}
			if all, err := db.BindingsOf(ctxOf(t), "loop", relay.UserID(fmt.Sprintf("u%03d", (n+1)*8))); err != nil || all[0].DMChat != relay.ChatID(fmt.Sprintf("chat%03d", n+1)) {
				silent++
			}
		})
	}
	if noticed == 0 || silent > 0 {
		t.Errorf("%d lost pages were noticed, %d were not", noticed, silent)
	}
}

func TestPowerCutAtTheFirstStart(t *testing.T) {
	// The name appears when the file is whole and synced. Before that, the leftover may hold
	// anything; and a file system that orders nothing may show the name of a leftover only.
	path := filepath.Join(t.TempDir(), "whole.db")
	closeChecked(t, reopen(t, path, Options{}))
	whole := read(t, path)
	dice := rand.New(rand.NewPCG(5, 6))
	for n := range 40 {
		dir := t.TempDir()
		file := slices.Clone(whole[:dice.IntN(len(whole)+1)])
		for at := 0; at+sector <= len(file); at += sector {
			if dice.IntN(3) == 0 {
				clear(file[at : at+sector])
			}
		}
		path := filepath.Join(dir, "test.db")
		if err := os.WriteFile(path+".new-1", file, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("state %d: %v", n, err)
		}
		closeChecked(t, db)
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("state %d: the folder holds %v", n, files)
		}
	}
}
