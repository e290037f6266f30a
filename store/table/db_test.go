package table_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

const records = "records"

// TestReadsAndChanges: an error says what failed, a view sees one moment and no write may wait in it, and what grows is
// refused in a full file while the rest goes on.
func TestReadsAndChanges(t *testing.T) {
	ctx, db := t.Context(), tabletest.Open(t, records)
	db.Put(t, records, []byte("a"), 1)
	find := func(ctx context.Context, k string) (v int, ok bool) {
		t.Helper()
		v, ok, err := table.Find[int](ctx, db.DB, "number", records, []byte(k))
		must.Succeed(t, err)
		return v, ok
	}
	err := db.View(ctx, func(in context.Context) error {
		db.Put(t, records, []byte("a"), 2)
		if v, _ := find(in, "a"); v != 1 {
			t.Errorf("the view sees %d, want 1", v)
		}
		if err := db.Change(in, "late", func(*table.Writer) error { return nil }); err == nil {
			t.Error("a view waits for the writer, which may wait for the view")
		}
		return nil
	})
	if v, ok := find(ctx, "a"); err != nil || v != 2 || !ok {
		t.Errorf("%d, %t, %v", v, ok, err)
	}
	if _, ok := find(ctx, "b"); ok {
		t.Error("b is there")
	}
	bad := errors.New("bad")
	for _, err := range []error{
		db.Change(ctx, "the thing", func(*table.Writer) error { return bad }),
		second(table.Get(ctx, db.DB, "the thing", func(*bolt.Tx) (int, error) { return 1, bad })),
	} {
		if !errors.Is(err, bad) || !strings.HasPrefix(err.Error(), "the thing: ") {
			t.Errorf("got %v", err)
		}
	}
	put := func(size int, adds ...int) error {
		return db.Change(ctx, "fill", func(w *table.Writer) error { return w.Put(records, []byte("big"), make([]byte, size)) }, adds...)
	}
	must.Succeed(t, put(10<<20, 10<<20))
	if err := put(10, 10); !errors.Is(err, boltfile.ErrFull) {
		t.Errorf("what grows: %v, want ErrFull", err)
	}
	if err := put(10); err != nil {
		t.Errorf("what does not: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNotesWait: what a commit took along is forgotten, unless it has changed since; a commit that fails takes nothing.
func TestNotesWait(t *testing.T) {
	var n table.Notes[int]
	n.Set([]byte("a"), 1)
	n.Set([]byte("b"), 1)
	bad := errors.New("bad")
	if _, err := n.Ride(func(map[string]int) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	waiting := func() (got map[string]int) {
		_, _ = n.Ride(func(notes map[string]int) error { got = notes; return nil })
		return got
	}
	if got := waiting(); !maps.Equal(got, map[string]int{"a": 1, "b": 1}) {
		t.Errorf("after a failure wait %v", got)
	}
	stored, err := n.Ride(func(map[string]int) error { return nil })
	n.Change([]byte("b"), func(v int) int { return v + 1 })
	stored()
	if got := waiting(); err != nil || !maps.Equal(got, map[string]int{"b": 2}) {
		t.Errorf("%v; after a commit wait %v, want b alone", err, got)
	}
}
