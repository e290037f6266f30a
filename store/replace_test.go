package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// filesIn are the names in the folder of path.
func filesIn(t *testing.T, path string) (out []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	must.Succeed(t, err)
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

func TestBrokenMetaPage(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("old", 300), "i1")
	before := laneOf(t, db, "i1")
	acceptOne(t, db, event("new", 300), "i1")
	after := laneOf(t, db, "i1")
	closeChecked(t, db)
	good := read(t, path)
	newest := newestMeta(t, good).at
	other := pageSize + 2*pageHeader - newest
	flip := func(at ...int) []byte {
		c := slices.Clone(good)
		for _, a := range at {
			c[a] ^= 1
		}
		return c
	}
	for name, tc := range map[string]struct {
		file     []byte
		want     string
		fellBack bool
		log      string
	}{
		"one bit of the newest":               {flip(newest + 20), before, true, "the newest commit is lost"},
		"one bit of its checksum":             {flip(newest + 60), before, true, "the newest commit is lost"},
		"two bits of the newest":              {flip(newest+20, newest+40), before, true, "the newest commit is lost"},
		"its transaction id and another bit":  {flip(newest+48, newest+40), before, true, "the newest commit is lost"},
		"one bit of the last but one":         {flip(other + 20), after, false, "nothing is lost"},
		"two bits of the last but one":        {flip(other+20, other+40), after, false, "nothing is lost"},
		"a bit that makes them look the same": {flip(other + 48), after, false, "nothing is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			must.Succeed(t, os.WriteFile(path, tc.file, 0o600))
			var text bytes.Buffer
			db := reopen(t, path, Options{Now: newClock().now, Log: slog.New(slog.NewTextHandler(&text, nil))})
			if got := laneOf(t, db, "i1"); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := db.Stats().FellBack; got != tc.fellBack {
				t.Errorf("FellBack %v, want %v", got, tc.fellBack)
			}
			if !strings.Contains(text.String(), tc.log) {
				t.Errorf("log %q does not say %q", &text, tc.log)
			}
			want := []string{"test.db"}
			if got := filesIn(t, path); !slices.Equal(got, want) {
				t.Errorf("the folder holds %v, want %v", got, want)
			}
			if err := db.PutBlob(ctxOf(t), "next", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReplacedFilesAreKeptApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	backup := backupOf(t, db)
	closeChecked(t, db)
	kept := make(map[string]bool)
	for range 3 { // in the same second
		got, err := Restore(path, bytes.NewReader(backup), Options{Now: newClock().now})
		if err != nil || !files.Exists(got.Kept) || kept[got.Kept] {
			t.Fatalf("kept as %q beside %v, %v", got.Kept, kept, err)
		}
		kept[got.Kept] = true
	}
}

// bloatedFile is a database of which little is in use, and what is in it.
func bloatedFile(t *testing.T) (path, lane string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Limits: Limits{MaxBytes: 1 << 30}})
	enroll(t, db, "i1", "i2")
	var all []relay.BufferID
	for n := range 100 {
		out := acceptOne(t, db, event(fmt.Sprintf("e%03d", n), 250_000), "i1")
		all = append(all, out.Buffers...)
	}
	for _, b := range all[:97] {
		must.Succeed(t, acknowledge(ctxOf(t), db, "i1", b))
	}
	acceptOne(t, db, event("small", 300), "i2")
	lane = laneOf(t, db, "i1") + laneOf(t, db, "i2")
	closeChecked(t, db)
	return path, lane
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must.Succeed(t, err)
	return info.Size()
}

func TestCompaction(t *testing.T) { // invariant 13
	t.Parallel()
	path, lane := bloatedFile(t)
	before := sizeOf(t, path)
	closeChecked(t, reopen(t, path, Options{})) // not unless it is asked for
	if got := sizeOf(t, path); got != before {
		t.Errorf("%d bytes without Compact, %d before", got, before)
	}
	// A compaction that was killed left its copy, whole or not.
	for n, leftover := range [][]byte{nil, read(t, path)[:100_000], read(t, path)} {
		must.Succeed(t, os.WriteFile(fmt.Sprintf("%s.new-%d", path, n), leftover, 0o600))
	}
	db := reopen(t, path, Options{Compact: true})
	if got := laneOf(t, db, "i1") + laneOf(t, db, "i2"); got != lane {
		t.Errorf("got %s, want %s", got, lane)
	}
	acceptOne(t, db, event("more", 300), "i2")
	after := sizeOf(t, path)
	if before < 8<<20 || after > before/3 {
		t.Errorf("%d bytes, %d before", after, before)
	}
	if got := filesIn(t, path); !slices.Equal(got, []string{"test.db"}) {
		t.Errorf("the folder holds %v", got)
	}
	closeChecked(t, db)
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	closeChecked(t, reopen(t, path, Options{Compact: true}))
	if got := sizeOf(t, path); got != after {
		t.Errorf("compacted again: %d bytes, %d before", got, after)
	}
	t.Logf("%d KiB became %d KiB", before>>10, after>>10)
}

// TestSizeStaysFlat: a backlog makes the file grow once; what comes after it uses its pages.
func TestSizeStaysFlat(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	round := func(n, size int) {
		var a Accept
		a.Bot = bot
		for e := range n {
			a.Items = append(a.Items, acceptFor(event(fmt.Sprintf("%d-%d-%d", db.Stats().Commits, size, e), size), "i1").Items...)
		}
		out, err := db.Accept(ctxOf(t), a)
		must.Succeed(t, err)
		for _, i := range out.Items {
			must.Succeed(t, acknowledge(ctxOf(t), db, "i1", i.Buffers[0]))
		}
	}
	for range 2 {
		round(60, 300_000)
	}
	peak := sizeOf(t, path)
	if peak < 8<<20 {
		t.Fatalf("the backlog made %d bytes", peak)
	}
	for range 30 {
		round(10, 2000)
	}
	for range 3 {
		round(50, 300_000)
	}
	if got := sizeOf(t, path); got > peak+4<<20 {
		t.Errorf("the file grew from %d to %d bytes", peak, got)
	}
	closeChecked(t, db)
	db = reopen(t, path, Options{Compact: true})
	if got := sizeOf(t, path); got > 8<<20 {
		t.Errorf("reopened, it has %d bytes", got)
	}
	t.Logf("peak %d KiB, compacted %d KiB", peak>>10, sizeOf(t, path)>>10)
}
