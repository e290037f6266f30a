package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// kept runs a Keeper over db in a bubble where it is the given hour of 2000-01-01, and calls do
// while it runs. It returns the folder.
func kept(t *testing.T, hour int, o Options, do func(t *testing.T, db *flaky, k *Keeper, dir string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshots")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Duration(hour) * time.Hour) // the bubble begins at midnight, UTC
		db := &flaky{DB: openDB(t)}
		o.Dir, o.Now = dir, func() time.Time { return time.Now().UTC() }
		k, err := NewKeeper(db, o)
		must.Succeed(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		do(t, db, k, dir)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// flaky is a database whose backups can fail.
type flaky struct {
	*store.DB
	broken atomic.Bool
}

var errFlaky = errors.New("no space left on device")

func (f *flaky) Backup(ctx context.Context, w io.Writer) (store.BackupInfo, error) {
	if f.broken.Load() {
		return store.BackupInfo{}, errFlaky
	}
	return f.DB.Backup(ctx, w)
}

// taken are the times in the names of the snapshots.
func taken(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, n := range names(t, dir) {
		out = append(out, strings.Split(n, "-")[1])
	}
	return out
}

// counting counts by name; it is safe in a synctest bubble only.
func counting() (n map[count.Counter]int, counts func(count.Counter)) {
	n = make(map[count.Counter]int)
	return n, func(name count.Counter) { n[name]++ }
}

func TestNightlySnapshots(t *testing.T) { // invariants 2 and 4
	n, counts := counting()
	kept(t, 12, Options{Count: counts}, func(t *testing.T, db *flaky, k *Keeper, dir string) {
		want := []string{"20000101T120000Z"} // there was none
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			if got := taken(t, dir); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		check("at once")
		change(t, db.DB, "1")
		time.Sleep(14*time.Hour + 59*time.Minute)
		check("before the night")
		time.Sleep(2 * time.Minute)
		want = append(want, "20000102T030000Z")
		check("at night")
		commits := db.Stats().Commits
		time.Sleep(48 * time.Hour)
		check("when nothing was committed")
		if at := k.Stats().CoveredAt; time.Since(at) > 25*time.Hour {
			t.Errorf("the newest snapshot is said to hold all there was at %v; it is %v", at, time.Now().UTC())
		}
		path, at, err := Newest(dir, time.Now())
		if err != nil || filepath.Base(path) != names(t, dir)[1] || !at.Equal(time.Date(2000, 1, 2, 3, 0, 0, 0, time.UTC)) {
			t.Errorf("the newest is said to be %s of %v, %v", path, at, err)
		}
		change(t, db.DB, "2")
		time.Sleep(24 * time.Hour)
		want = append(want, "20000105T030000Z")
		check("when something was")
		change(t, db.DB, "3")
		time.Sleep(24 * time.Hour)
		want = append(want, "20000106T030000Z")[1:]
		check("the fourth")
		if got := db.Stats().Commits - commits; got != 2 {
			t.Errorf("%d commits, want the test's own two", got)
		}
		if s := k.Stats(); n[count.SnapshotTaken] != 4 || n[count.SnapshotFailed] != 0 || s.Err != nil || !s.LastAt.Equal(time.Date(2000, 1, 6, 3, 0, 0, 0, time.UTC)) {
			t.Errorf("stats %+v, %v", s, n)
		}
	})
}

func TestOffAtNight(t *testing.T) {
	// Found at the start: one from before the night, so it is due; one of after it is not.
	for name, want := range map[string]int{"19991231T200000Z": 2, "20000101T040000Z": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "connector-"+name+"-1.db"), nil, 0o600))
			now := time.Date(2000, 1, 1, 18, 0, 0, 0, time.UTC)
			k, err := NewKeeper(openDB(t), Options{Dir: dir, Now: func() time.Time { return now }})
			must.Succeed(t, err)
			k.step(t.Context())
			if got := taken(t, dir); len(got) != want {
				t.Errorf("%v, want %d", got, want)
			}
		})
	}
}

func TestClockThatWasAhead(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "connector-20380101T000000Z-1.db"), nil, 0o600))
	k, err := NewKeeper(openDB(t), Options{Dir: dir})
	must.Succeed(t, err)
	k.step(t.Context())
	if got := taken(t, dir); len(got) != 2 {
		t.Errorf("%v, want one of now beside it", got)
	}
}

// A clock that is ahead, or behind as a machine without a battery for it starts, costs snapshots
// neither their place nor the disk one every hour.
func TestClockThatWasWrong(t *testing.T) { // invariant 2
	for name, tc := range map[string]struct {
		now  int // year
		want []string
	}{
		"ahead once": {2026, []string{"20260502T030000Z", "20260503T030000Z", "20260504T030000Z"}},
		"behind now": {1970, []string{"19700502T030000Z", "19700503T030000Z", "19700504T030000Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, day := range []string{"01", "02", "03"} {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, "connector-203801"+day+"T030000Z-1.db"), nil, 0o600))
			}
			now := time.Date(tc.now, 5, 1, 12, 0, 0, 0, time.UTC)
			n, counts := counting()
			db := openDB(t)
			k, err := NewKeeper(db, Options{Dir: dir, Count: counts, Now: func() time.Time { return now }})
			must.Succeed(t, err)
			for range 64 { // hours
				change(t, db, now.String())
				k.step(t.Context())
				now = now.Add(time.Hour)
			}
			if got := taken(t, dir); !slices.Equal(got, tc.want) || n[count.SnapshotTaken] != 4 {
				t.Errorf("%v after %d snapshots, want %v after 4", got, n[count.SnapshotTaken], tc.want)
			}
		})
	}
}

func TestClockThatWasAheadWhileNothingHappened(t *testing.T) {
	now := time.Date(2038, 1, 1, 12, 0, 0, 0, time.UTC)
	dir, db := t.TempDir(), openDB(t)
	k, err := NewKeeper(db, Options{Dir: dir, Now: func() time.Time { return now }})
	must.Succeed(t, err)
	k.step(t.Context())
	now = now.AddDate(0, 0, 1)
	k.step(t.Context())
	now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	change(t, db, "1")
	k.step(t.Context())
	if got := taken(t, dir); len(got) != 2 {
		t.Errorf("%v, want one of now beside it", got)
	}
}

func TestFailureIsTriedAgain(t *testing.T) { // invariants 2 and 5
	n, counts := counting()
	kept(t, 12, Options{Keep: 1, Count: counts}, func(t *testing.T, db *flaky, k *Keeper, dir string) {
		had := taken(t, dir)
		change(t, db.DB, "1")
		db.broken.Store(true)
		time.Sleep(18 * time.Hour)
		synctest.Wait()
		if got := taken(t, dir); !slices.Equal(got, had) {
			t.Errorf("%v, want the old one: %v", got, had)
		}
		if s := k.Stats(); n[count.SnapshotFailed] < 2 || !errors.Is(s.Err, errFlaky) {
			t.Errorf("stats %+v, %v", s, n)
		}
		db.broken.Store(false)
		time.Sleep(retryAfter)
		synctest.Wait()
		if got := taken(t, dir); len(got) != 1 || got[0] == had[0] {
			t.Errorf("%v, want a new one", got)
		}
		if s := k.Stats(); s.Err != nil {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestEncryptedSnapshots(t *testing.T) { // invariant 3
	key, recipient := newKey(t)
	kept(t, 12, Options{Recipient: recipient}, func(t *testing.T, _ *flaky, _ *Keeper, dir string) {
		all := names(t, dir)
		if len(all) != 1 || !strings.HasSuffix(all[0], ".db.age") {
			t.Fatalf("the folder holds %v", all)
		}
		content, err := os.ReadFile(filepath.Join(dir, all[0]))
		if err != nil || strings.Contains(string(content), phrase) {
			t.Errorf("%v, or the snapshot is readable", err)
		}
		r, err := Open(filepath.Join(dir, all[0]), key)
		must.Succeed(t, err)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := NewKeeper(nil, Options{Recipient: "nonsense"}); err == nil {
		t.Error("a recipient that is none was accepted")
	}
}

func TestLeftovers(t *testing.T) { // invariant 1
	dir := t.TempDir()
	others := []string{".hidden", "connector-20000101T000000Z-x.db", "note.txt", "own.db"}
	for _, n := range append(slices.Clone(others), ".connector-20000101T030000Z-7.db.tmp-123", ".connector-20000101T030000Z-7.db.age.tmp-1") {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, n), nil, 0o600))
	}
	k, err := NewKeeper(openDB(t), Options{Dir: dir, Keep: 1})
	must.Succeed(t, err)
	k.clean()
	if got := names(t, dir); !slices.Equal(got, others) {
		t.Errorf("after the clean-up: %v, want %v", got, others)
	}
	k.step(t.Context())
	if got := names(t, dir); len(got) != len(others)+1 {
		t.Errorf("%v, want what is not ours untouched", got)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("connector-20261121T030000Z-42.db")
	f.Add("connector-20261121T030000Z-42.db.age")
	f.Add("connector-99991231T235959Z-18446744073709551615.db")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseName(name); ok && s.name() != name {
			t.Errorf("%q is read as %+v", name, s)
		}
	})
}
