package store

import (
	"reflect"
	"testing"
)

// TestTheDatabaseDoesNotDoEverything: what is about one kind of record is a method of that kind's own type.
func TestTheDatabaseDoesNotDoEverything(t *testing.T) {
	db := reflect.TypeFor[*DB]()
	if db.NumMethod() > 35 {
		t.Errorf("*DB has %d exported methods, want at most 35", db.NumMethod())
		for m := range db.Methods() {
			t.Log(m.Name)
		}
	}
}
