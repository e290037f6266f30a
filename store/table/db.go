package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// DB is an open file of records. Reads see committed data; a write returns after the sync of the group it was committed
// with. A context that ends before a write has begun prevents the write; one that ends later has no effect. Its methods
// may be called from any goroutine.
type DB struct {
	// Set once.
	File *boltfile.File
	Now  func() time.Time // in UTC
}

// viewing is the key under which a context carries View's transaction.
type viewing struct{}

// errWithinView refuses a write: the writer may have to wait for every reader.
var errWithinView = errors.New("a write within a view")

// View makes all reads of fn with its context come from one read transaction. fn must neither write nor wait for
// others, and the context must not outlive it.
func (db *DB) View(ctx context.Context, fn func(context.Context) error) error {
	return db.File.Read(ctx, func(t *bolt.Tx) error { return fn(context.WithValue(ctx, viewing{}, t)) })
}

// Viewing reports whether ctx comes from View.
func Viewing(ctx context.Context) bool { return ctx.Value(viewing{}) != nil }

// Get returns the result of fn, called in View's transaction or in one of its own; what names the read in front of an
// error. fn must copy what it keeps.
func Get[T any](ctx context.Context, db *DB, what string, fn func(*bolt.Tx) (T, error)) (out T, err error) {
	read := func(t *bolt.Tx) (err error) {
		out, err = fn(t)
		return err
	}
	if t, ok := ctx.Value(viewing{}).(*bolt.Tx); ok {
		err = read(t)
	} else {
		err = db.File.Read(ctx, read)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}

// Find returns the record under k, read as Get does; ok is false if there is none.
func Find[T any](ctx context.Context, db *DB, what, b string, k []byte) (v T, ok bool, err error) {
	return First(Get(ctx, db, what, func(t *bolt.Tx) ([]T, error) { return AtMostOne[T](t, b, k) }))
}

// First returns the first element of a list; ok is false if the list is empty.
func First[T any](all []T, err error) (first T, ok bool, _ error) {
	if err != nil || len(all) == 0 {
		return first, false, err
	}
	return all[0], true, nil
}

// Change runs fn in the next transaction; what names the change in front of an error. boltfile.Op.Run says what fn must
// obey. adds is about how many bytes it stores; a change that adds something is refused with ErrFull when the file is
// nearly full.
func (db *DB) Change(ctx context.Context, what string, fn func(*Writer) error, adds ...int) error {
	return db.Run(ctx, what, func(b boltfile.Batch) error { return fn(b.(interface{ Records() *Writer }).Records()) }, adds...)
}

// Run is Change for callers that know the file's Batch, which embeds a Writer.
func (db *DB) Run(ctx context.Context, what string, fn func(boltfile.Batch) error, adds ...int) error {
	o := &boltfile.Op{Run: fn}
	for _, n := range adds {
		o.Size, o.Grows = o.Size+n, o.Grows || n > 0
	}
	err := errWithinView
	if !Viewing(ctx) {
		err = db.File.Do(ctx, o)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}
