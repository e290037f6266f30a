package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// schema6 is a database that version 6 wrote: that of schema5, one more message, and one with a capability.
func schema6(t *testing.T) (path string) { return written(t, "schema6") }

// checkSchema6 looks for the content, and whether there is a place for files.
func checkSchema6(t *testing.T, db *DB) {
	t.Helper()
	if got, want := laneOf(t, db, "home"), "[m2 d1 s4-last s5-last s6-last i6]"; got != want {
		t.Errorf("lane of home %s, want %s", got, want)
	}
	if all := capabilitiesOf(t, db, ""); len(all) != 1 || all[0] != "i6" {
		t.Errorf("capabilities %+v", all)
	}
	if all, err := db.Media.List(ctxOf(t)); len(all) != 0 || err != nil {
		t.Errorf("files %+v, %v", all, err)
	}
	if s := db.Stats(); s.BadMarks != 0 || s.Damaged != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSchema6IsBroughtUpToDate(t *testing.T) {
	path := schema6(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema6(t, db)
	closeChecked(t, db)
	before := read(t, path)
	db = reopen(t, path, Options{Now: schema1Clock})
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
	acceptFiles(t, db, "f1", []relay.InstanceID{"home"}, "a")
	if all := filesOf(t, db); len(all) != 1 {
		t.Errorf("files %+v, want 1", all)
	}
}

func TestMigrationFromSchema6GoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	path := schema6(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	steps := migrations()
	steps[5] = func(x *bolt.Tx) error { return errors.Join(toSchema7(x), broken) }
	err = migrate(b, steps)
	v, err2 := version(b)
	if err3 := b.Close(); !errors.Is(err, broken) || v != 6 || errors.Join(err2, err3) != nil {
		t.Fatalf("left at version %d with %v, %v, %v; want 6", v, err, err2, err3)
	}
	checkSchema6(t, reopen(t, path, Options{Now: schema1Clock}))

	path = schema6(t)
	if b, err = openBolt(path, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, migrations()[:6]), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema6(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}
