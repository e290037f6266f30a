package boltfile

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Read runs fn in a read transaction of its own. fn must copy what it keeps. The data that fn sees is on disk: bbolt
// shows readers a commit before its sync, and the data of an answer given then could still be lost. A page that cannot
// be read is ErrFailed.
func (f *File) Read(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-f.shown:
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := f.begin(false)
	f.shown <- struct{}{}
	switch {
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return errClosed
	case errors.Is(err, ErrUnread):
		f.fail(err)
		return f.Err()
	case err != nil:
		return err
	}
	defer t.Rollback()
	if int64(t.ID()) > f.synced.Load() { // that commit failed, but bbolt shows it
		return cmp.Or(f.Err(), ErrFailed)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // not before Begin, which would panic with its locks held
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case unread(p):
			f.fail(ErrUnread)
			err = f.Err()
		default:
			panic(p)
		}
	}()
	return fn(t)
}
