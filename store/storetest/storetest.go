// Package storetest opens databases for the tests of packages that use one.
package storetest

import (
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/store"
)

// Open opens the database in the folder dir, and closes it when the test ends. Everything that uses it must end before
// that.
func Open(t testing.TB, dir string, o store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(dir, "connector.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
