// Package storetest opens databases for the tests of whoever uses one.
package storetest

import (
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/store"
)

// Open is the database of a folder, which is closed when its test ends: whatever uses it ends before.
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
