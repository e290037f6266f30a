package rekey

import (
	"errors"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestEveryValueIsSealedAnew: one that does not open refuses all of it, by name, or is dropped where it may be spared.
func TestEveryValueIsSealedAnew(t *testing.T) {
	const a, b = "a", "b"
	db := tabletest.Open(t, a, b)
	type record struct{ One, Two []byte }
	kind := func(bucket string, spare bool) Kind {
		return Records(bucket, spare, func(r *record) []Value {
			return []Value{{Bucket: bucket, Key: "one", Bytes: &r.One}, {Bucket: bucket, Key: "two", Bytes: &r.Two}}
		})
	}
	db.Put(t, a, []byte("k"), record{[]byte("1"), []byte("2")})
	db.Put(t, b, []byte("k"), record{[]byte("1"), []byte("2")})
	db.Put(t, b, []byte("bad"), record{[]byte("1"), []byte("bad")})
	bad := errors.New("does not open")
	again := func(bucket, key string, sealed []byte) ([]byte, error) {
		if string(sealed) == "bad" {
			return nil, bad
		}
		return []byte(bucket + key + string(sealed)), nil
	}
	all := func(kinds ...Kind) (n Count, err error) {
		err = db.Change(t.Context(), "rekey", func(w *table.Writer) (err error) {
			n, err = All(w, again, kinds...)
			return err
		})
		return n, err
	}
	sealed := func(bucket string) string {
		t.Helper()
		r, _, err := table.Find[record](t.Context(), db.DB, "record", bucket, []byte("k"))
		must.Succeed(t, err)
		return string(r.One) + " " + string(r.Two)
	}
	if _, err := all(kind(a, false), kind(b, false)); !errors.Is(err, bad) || !strings.Contains(err.Error(), `bucket b, record "bad", value "two"`) {
		t.Errorf("got %v", err)
	}
	if got := sealed(a); got != "1 2" {
		t.Errorf("what was refused left %q", got)
	}
	if n, err := all(kind(a, false), kind(b, true)); err != nil || n != (Count{Records: 2, Dropped: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
	if x, y := sealed(a), sealed(b); x != "aone1 atwo2" || y != "bone1 btwo2" || db.Keys(t, b) != 1 {
		t.Errorf("%q, %q, %d", x, y, db.Keys(t, b))
	}
}
