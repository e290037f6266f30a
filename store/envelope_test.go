package store

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"pgregory.net/rapid"
)

func TestBlobs(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	if v, ok, err := db.Blob(ctx, "key"); v != nil || ok || err != nil {
		t.Errorf("absent: %q %v %v", v, ok, err)
	}
	for _, want := range []string{"one", "two", ""} {
		must.Succeed(t, db.PutBlob(ctx, "key", []byte(want)))
		if v, ok, err := db.Blob(ctx, "key"); string(v) != want || !ok || err != nil {
			t.Errorf("got %q %v %v, want %q", v, ok, err, want)
		}
	}
}

func TestKeysOfDifferentPartsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 'a'}), 0, 4, -1)
		a := rapid.SliceOfN(part, 1, 3).Draw(t, "a")
		b := rapid.SliceOfN(part, 1, 3).Draw(t, "b")
		if same := bytes.Equal(table.Key(a[0], a[1:]...), table.Key(b[0], b[1:]...)); same != cmp.Equal(a, b) {
			t.Errorf("%q and %q: same key %v", a, b, same)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte("key"), []byte("payload"), 3)
	f.Add([]byte{}, []byte{}, 0)
	f.Fuzz(func(t *testing.T, k, payload []byte, at int) {
		value := boltfile.Seal(k, payload)
		got, err := boltfile.Unseal(k, value)
		if err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("got %q, %v", got, err)
		}
		if at >= 0 && at < len(value) {
			value[at] ^= 1
			if got, err := boltfile.Unseal(k, value); err == nil {
				t.Errorf("a flipped bit at %d went unnoticed: %q", at, got)
			}
			if got, err := table.Decode[Instance](k, value); err == nil {
				t.Errorf("decoded %+v", got)
			}
		}
	})
}
