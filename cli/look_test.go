package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/vault"
)

func TestAChangeIsLoggedOnce(t *testing.T) {
	low := finding.DiskLow.Of("/data", "12 MB are free", "make room")
	silent := finding.GatewaySilent.Of("gateway home", "3 messages wait", "start it")
	more := finding.GatewaySilent.Of("gateway home", "4 messages wait", "start it") // the same, grown
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	known := make(map[[2]string]bool)
	for n, step := range []struct {
		found []finding.Finding
		want  []string // of each line
	}{
		{nil, nil},
		{[]finding.Finding{finding.NotLookedAt.Of("/data", "not known", "look")}, nil},
		{[]finding.Finding{low, silent}, []string{"level=WARN msg=\"found wrong\" code=HC320", "level=WARN msg=\"found wrong\" code=HC402"}},
		{[]finding.Finding{low, more}, nil},
		{[]finding.Finding{low}, []string{"level=INFO msg=fixed code=HC402 about=\"gateway home\""}},
		{[]finding.Finding{low, low}, nil},
		{nil, []string{"level=INFO msg=fixed code=HC320"}},
		{[]finding.Finding{low}, []string{"level=WARN msg=\"found wrong\" code=HC320"}},
	} {
		out.Reset()
		known = changes(log, known, step.found)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if out.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(step.want) {
			t.Fatalf("step %d: %q, want %d lines", n, lines, len(step.want))
		}
		for i, want := range step.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("step %d: %q, want %q", n, lines[i], want)
			}
		}
	}
}

// TestWhatWasMendedIsGone: doctor asks again right after the mend.
func TestWhatWasMendedIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	key := config.Vault{KeyFile: filepath.Join(dir, "vault.key")}
	if _, err := vault.Open(t.Context(), db, key.Key()); err != nil {
		t.Fatal(err)
	}
	look := &machineLook{core: &core{db: db}, cfg: &config.Config{DataDir: dir, Vault: key}}
	open := func(afresh bool) bool {
		return slices.ContainsFunc(look.findings(afresh), func(f finding.Finding) bool { return f.Code == finding.DataOpen.Code })
	}
	for _, step := range []struct {
		mode         os.FileMode
		afresh, want bool
	}{{0o755, false, true}, {0o700, true, false}, {0o755, true, true}} {
		if err := os.Chmod(dir, step.mode); err != nil {
			t.Fatal(err)
		}
		if got := open(step.afresh); got != step.want {
			t.Errorf("mode %04o: said to be open: %t", step.mode, got)
		}
	}
}

// TestALeftoverIsFound: what a rekey replaced, and what could not be removed, is told as long as it is there.
func TestALeftoverIsFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 250)) // no copy with a longer name can be made beside it
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	look := func() finding.List {
		return (&machineLook{core: &core{db: db}, cfg: &config.Config{DataDir: dir}}).database()
	}
	if _, err := db.Reseal(t.Context(), vault.BlobName, []byte("wrapped"), nil); err != nil || len(look()) != 0 {
		t.Fatalf("%v, %v", err, look())
	}
	if err := errors.Join(db.Close(), os.Rename(filepath.Join(dir, "connector.db"), path)); err != nil {
		t.Fatal(err)
	}
	if db, err = store.Open(path, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if found := look(); len(found) != 1 || found[0].Code != finding.Leftover.Code {
		t.Errorf("%v", found)
	}
}

func TestTheWorstInOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		found []finding.Finding
		want  string
	}{
		"nothing":       {nil, ""},
		"not looked at": {[]finding.Finding{finding.NotLookedAt.Of("it", "what", "fix")}, ""},
		"one":           {[]finding.Finding{finding.NoBot.Of("", "no bot", "make one")}, "! HC504  no bot; make one"},
		"more": {[]finding.Finding{finding.DeadToken.Of("telegram:1", "dead\x1b[2J", "get another"), finding.NoBot.Of("", "no bot", "make one"),
			finding.NotLookedAt.Of("it", "what", "fix")}, `✗ HC101  telegram:1: dead\x1b[2J; get another (1 more finding: hermes-connector doctor)`},
	} {
		if got := worstLine(tc.found); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestALookThatHangs: whoever asks is answered all the same, and one look at a time is left behind.
func TestALookThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &machineLook{cfg: &config.Config{DataDir: "/data"}}
		dead, looks := make(chan struct{}), 0
		look := func() (finding.List, int64) {
			looks++
			<-dead
			return finding.DiskLow.Alone("/data", "12 MB are free", "make room"), 12 << 20
		}
		code := func() string {
			found, free := l.shared(false, look)
			if known := free == 12<<20; known != (found[0].Code == finding.DiskLow.Code) || !known && free >= 0 {
				t.Errorf("%s, and %d bytes are free", found[0].Code, free)
			}
			return found[0].Code
		}
		for range 3 {
			began := time.Now()
			if got := code(); got != finding.NotLookedAt.Code || time.Since(began) != hostWithin {
				t.Errorf("a disk that hangs: %s after %v", got, time.Since(began))
			}
		}
		close(dead)
		synctest.Wait()
		if got := code(); got != finding.DiskLow.Code || looks != 1 {
			t.Errorf("the disk answers: %s after %d looks, want one", got, looks)
		}
		time.Sleep(hostFresh)
		if got := code(); got != finding.DiskLow.Code || looks != 2 {
			t.Errorf("half a minute later: %s after %d looks, want two", got, looks)
		}
	})
}
