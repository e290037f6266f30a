// Package tabletest opens databases for the tests of single kinds of records.
package tabletest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// DB is a new database, closed when its test ends.
type DB struct {
	*table.DB
	// Time is the clock's time.
	Time time.Time
	// Rides add waiting notes to a transaction that is about to be committed, as in package store. They are set before
	// anything is changed.
	Rides []func(*table.Writer) (stored func(), err error)
}

// Open makes a database with these buckets and the index.
func Open(t testing.TB, buckets ...string) *DB {
	t.Helper()
	db := &DB{Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return db.Time }
	file, err := boltfile.Open(filepath.Join(t.TempDir(), "test.db"), boltfile.Options{
		MaxSize: 16 << 20, LockTimeout: time.Second, Now: now, Log: slog.New(slog.DiscardHandler), OpenFile: os.OpenFile,
		Format: boltfile.Format{
			Fill: func(x *bolt.Tx) (err error) {
				for _, b := range append(buckets, boltfile.MetaBucket, table.Index) {
					_, err2 := x.CreateBucket([]byte(b))
					err = errors.Join(err, err2)
				}
				return err
			},
			Prepare: func(_ *bolt.DB, bad []boltfile.Damaged) error { return boltfile.Named(bad) },
			Begin: func(w *boltfile.Writer) boltfile.Batch {
				return &batch{Writer: &table.Writer{Writer: w}, db: db}
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(nil); err != nil {
			t.Error(err)
		}
	})
	db.DB = &table.DB{File: file, Now: now}
	return db
}

// Commit makes a commit without other changes, so that waiting notes are stored with it.
func (db *DB) Commit(t testing.TB) {
	t.Helper()
	db.Put(t, boltfile.MetaBucket, []byte("commit"), db.File.Committed())
}

// Put stores v under k in bucket b, in a commit of its own.
func (db *DB) Put(t testing.TB, b string, k []byte, v any) {
	t.Helper()
	if err := db.Change(context.WithoutCancel(t.Context()), "put", func(w *table.Writer) error { return w.Put(b, k, v) }); err != nil {
		t.Fatal(err)
	}
}

// Keys returns how many records b has.
func (db *DB) Keys(t testing.TB, b string) int {
	t.Helper()
	n, err := table.Get(context.WithoutCancel(t.Context()), db.DB, "count", func(x *bolt.Tx) (int, error) { return len(table.KeysUnder(x, b, nil)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type batch struct {
	*table.Writer
	db     *DB
	stored []func()
}

func (b *batch) Settle(bool) error {
	if b.Changes == 0 {
		return nil
	}
	for _, ride := range b.db.Rides {
		stored, err := ride(b.Writer)
		if err != nil {
			return err
		}
		b.stored = append(b.stored, stored)
	}
	return nil
}

func (b *batch) Done(stored bool) {
	for _, note := range b.stored {
		if stored && note != nil {
			note()
		}
	}
}
