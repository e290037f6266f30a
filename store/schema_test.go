package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// TestMigrations: steps run in their order, each in one transaction, and continue after an error and after a crash.
func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	closeChecked(t, reopen(t, path, Options{})) // the current version
	before := read(t, path)
	done := migrations()
	broken := errors.New("broken")
	var ran []string
	note := func(name string, err error) migration {
		return func(x *bolt.Tx) error {
			ran = append(ran, name)
			return errors.Join(x.Bucket([]byte(bucketBlobs)).Put([]byte(name), boltfile.Seal([]byte(name), nil)), err)
		}
	}
	// migrated is the version that steps leave the file at, and what migrate said.
	migrated := func(path string, steps ...migration) (v int, err error) {
		t.Helper()
		b, err := openBolt(path, Options{}.withDefaults())
		must.Succeed(t, err)
		err = migrate(b, append(slices.Clone(done), steps...))
		v, err2 := version(b)
		must.Succeed(t, err2, b.Close())
		return v, err
	}
	all := []migration{note("two", nil), note("three", nil), note("four", nil)}

	if v, err := migrated(path, note("two", nil), note("three", broken)); v != len(done)+2 || !errors.Is(err, broken) {
		t.Errorf("version %d, %v after the second step failed; want %d", v, err, len(done)+2)
	}
	ran = nil
	if v, err := migrated(path, all...); v != len(done)+4 || err != nil || !slices.Equal(ran, []string{"three", "four"}) {
		t.Errorf("version %d, %v, ran %v; want %d by what was missing", v, err, ran, len(done)+4)
	}
	if _, err := migrated(path, all[0]); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v, want that a newer version wrote it", err)
	}

	put(t, path, before)
	if _, err := migrated(path, all[0]); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			must.Succeed(t, os.WriteFile(path, content, 0o600))
			if v, err := migrated(path, all...); v != len(done)+4 || err != nil {
				t.Errorf("version %d, %v; want %d", v, err, len(done)+4)
			}
		})
	}
}
