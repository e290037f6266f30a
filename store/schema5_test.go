package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// schema5 is a database that version 5 wrote: that of schema4, and one more message.
func schema5(t *testing.T) (path string) { return written(t, "schema5") }

// checkSchema5 looks for the content, and whether there is a place for capabilities.
func checkSchema5(t *testing.T, db *DB) {
	t.Helper()
	if got, want := laneOf(t, db, "home"), "[m2 d1 s4-last s5-last]"; got != want {
		t.Errorf("lane of home %s, want %s", got, want)
	}
	if got, want := laneOf(t, db, "kids"), "[d1 m3 -700:1 c1:1177171717171717171 s4-68 s4-69]"; got != want {
		t.Errorf("lane of kids %s, want %s", got, want)
	}
	if all := capabilitiesOf(t, db, ""); len(all) != 0 {
		t.Errorf("capabilities %+v", all)
	}
	if s := db.Stats(); s.BadMarks != 0 || s.Damaged != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSchema5IsBroughtUpToDate(t *testing.T) {
	path := schema5(t)
	db := reopen(t, path, Options{Now: schema1Clock})
	checkSchema5(t, db)
	closeChecked(t, db)
	before := read(t, path)
	db = reopen(t, path, Options{Now: schema1Clock})
	if string(read(t, path)) != string(before) {
		t.Error("the next start changed the file")
	}
	withCapability(t, db, "i1", "home", schema1Clock())
	if all := capabilitiesOf(t, db, "home"); len(all) != 1 {
		t.Errorf("%d capabilities, want 1", len(all))
	}
}

func TestMigrationFromSchema5GoesOnAfterACrash(t *testing.T) {
	broken := errors.New("broken")
	path := schema5(t)
	before := read(t, path)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	steps := migrations()
	steps[4] = func(x *bolt.Tx) error { return errors.Join(toSchema6(x), broken) }
	err = migrate(b, steps)
	v, err2 := version(b)
	if err3 := b.Close(); !errors.Is(err, broken) || v != 5 || errors.Join(err2, err3) != nil {
		t.Fatalf("left at version %d with %v, %v, %v; want 5", v, err, err2, err3)
	}
	checkSchema5(t, reopen(t, path, Options{Now: schema1Clock}))

	path = schema5(t)
	if b, err = openBolt(path, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(advance(b, migrations()[:5]), b.Close()); err != nil {
		t.Fatal(err)
	}
	for name, content := range stoppedIn(before, read(t, path)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkSchema5(t, reopen(t, path, Options{Now: schema1Clock}))
		})
	}
}
