package table

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// TestKeysKeepListsOfPartsApart: no two lists of parts have the same key, a prefix finds what begins with its parts and
// nothing else, and no key is a filler's.
func TestKeysKeepListsOfPartsApart(t *testing.T) {
	parts := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 'a', 'f'}), 0, 3, -1), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		ka, kb := Key(a[0], a[1:]...), Key(b[0], b[1:]...)
		if bytes.Equal(ka, kb) != slices.Equal(a, b) {
			t.Errorf("%q and %q: %q and %q", a, b, ka, kb)
		}
		under := len(b) > len(a) && slices.Equal(b[:len(a)], a)
		if bytes.HasPrefix(kb, Prefix(a[0], a[1:]...)) != under {
			t.Errorf("the key of %q begins with the prefix of %q: %v", b, a, !under)
		}
		if string(ka) == Filler {
			t.Errorf("%q has the key of a filler", a)
		}
	})
}

func TestKeysStandInTheOrderOfTheirParts(t *testing.T) {
	want := [][]string{{"a"}, {"a", ""}, {"a", "1"}, {"a", "1", "z"}, {"a", "2"}, {"a\x01"}, {"ab"}, {"b"}}
	got := slices.Clone(want)
	slices.SortFunc(got, func(a, b []string) int { return bytes.Compare(Key(a[0], a[1:]...), Key(b[0], b[1:]...)) })
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReaders: what each reader sees of records, a damaged one, and a filler.
func TestReaders(t *testing.T) {
	const b = "records"
	db, err := bolt.Open(filepath.Join(t.TempDir(), "test.db"), 0o600, nil)
	must.Succeed(t, err)
	defer db.Close()
	err = db.Update(func(x *bolt.Tx) error {
		w := Edit(x)
		var changed []string
		w.Note = func(bucket string) { changed = append(changed, bucket) }
		err := errors.Join(
			w.Put(b, Key("a", "1"), "one"), w.Put(b, Key("a", "2"), "two"), w.Put(b, Key("b", "1"), "three"),
			w.PutSealed(b, Key("c", "1"), []byte("spoilt")),
			w.PutChanged(b, Key("a", "1"), "one"), // as it stands there
			Fill(x, []string{b}))
		if w.Changes != 4 || len(changed) != 4 {
			t.Errorf("%d changes, in %v; want 4", w.Changes, changed)
		}
		err2 := DropWhere(w, b, func(s string) bool { return s != "two" && s != "one" })
		if n := w.Changes - 4; n != 1 {
			t.Errorf("%d dropped, want 1: the damaged one is passed over", n)
		}
		return errors.Join(err, err2)
	})
	must.Succeed(t, err)
	err = db.View(func(x *bolt.Tx) error {
		if all, err := List[string](x, b, Prefix("a")); err != nil || strings.Join(all, " ") != "one two" {
			t.Errorf("List: %v, %v", all, err)
		}
		if _, err := List[string](x, b, nil); !errors.Is(err, boltfile.ErrDamaged) || !strings.Contains(err.Error(), `"c\x001"`) {
			t.Errorf("List: %v, want the damaged record named", err)
		}
		if all := Readable[string](x, b); strings.Join(all, " ") != "one two" {
			t.Errorf("Readable: %v", all)
		}
		if keys := KeysUnder(x, b, nil); len(keys) != 3 {
			t.Errorf("KeysUnder: %q, want three, and no filler", keys)
		}
		var from []string
		for k := range UnderFrom(x, b, Prefix("a"), "2") {
			from = append(from, string(k))
		}
		if fmt.Sprintf("%q", from) != `["a\x002"]` {
			t.Errorf("UnderFrom: %q", from)
		}
		if v, err := Found[string](x, b, Key("a", "2")); err != nil || v != "two" {
			t.Errorf("Found: %q, %v", v, err)
		}
		if _, err := Must[string](x, b, Key("x"), "a thing"); !errors.Is(err, ErrNotFound) || err.Error() != "a thing: not found" {
			t.Errorf("Must: %v", err)
		}
		if _, _, err := Load[int](x, b, Key("a", "1")); !errors.Is(err, boltfile.ErrDamaged) || strings.Contains(err.Error(), "one") {
			t.Errorf("Load of another kind: %v, want damage and no quotation", err)
		}
		if !Has(x, b, Key("a", "1")) || Has(x, b, Key("a")) {
			t.Error("Has finds what is not there, or not what is")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
