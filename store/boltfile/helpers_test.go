package boltfile

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const records = "records"

// batch is a Batch that stores nothing beside what its ops do.
type batch struct{ *Writer }

func (b *batch) Settle(bool) error { return nil }
func (b *batch) Done(bool)         {}

func options() Options {
	return Options{
		MaxSize: 16 << 20, LockTimeout: time.Millisecond,
		Now: time.Now, Log: slog.New(slog.DiscardHandler), OpenFile: os.OpenFile,
		Format: Format{
			Fill: func(t *bolt.Tx) error {
				for _, b := range []string{MetaBucket, records} {
					if _, err := t.CreateBucket([]byte(b)); err != nil {
						return err
					}
				}
				return nil
			},
			Prepare: func(_ *bolt.DB, bad []Damaged) error { return Named(bad) },
			Begin:   func(w *Writer) Batch { return &batch{w} },
		},
	}
}

// openTest opens the file at path, or a new one, and closes it when the test ends.
func openTest(t testing.TB, path string, o Options) *File {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "test.db")
	}
	f, err := Open(path, o)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = f.Close(nil) })
	return f
}

// putting is an op that stores value under k; deleting when it is empty.
func putting(k, value string) *Op {
	return &Op{Run: func(b Batch) error {
		t := b.(*batch)
		if value == "" {
			return t.Delete(records, []byte(k))
		}
		return t.PutSealed(records, []byte(k), Seal([]byte(k), []byte(value)))
	}}
}

func put(t testing.TB, f *File, k, value string) {
	t.Helper()
	must.Succeed(t, f.Do(context.WithoutCancel(t.Context()), putting(k, value)))
}

// stored is what stands under k; empty when there is nothing.
func stored(t testing.TB, f *File, k string) (value string) {
	t.Helper()
	err := f.Read(context.WithoutCancel(t.Context()), func(x *bolt.Tx) error {
		if v := x.Bucket([]byte(records)).Get([]byte(k)); v != nil {
			value = string(v[EnvelopeSize:])
		}
		return nil
	})
	must.Succeed(t, err)
	return value
}
