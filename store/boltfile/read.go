package boltfile

import (
	"context"
	"errors"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Read runs fn in a read transaction of its own. fn must copy what it keeps. What fn sees is on disk: bbolt
// shows readers a commit before its sync, and an answer drawn from that could outlive the data it rests on.
// A page that cannot be read is ErrFailed.
func (f *File) Read(ctx context.Context, fn func(*bolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := f.begin(false)
	if err == nil && int64(t.ID()) > f.synced.Load() { // that commit is being synced
		if err = t.Rollback(); err == nil {
			t, err = f.viewOfNext(ctx)
		}
	}
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

// viewOfNext is a read transaction that the writer begins when the sync under way is through, and before it
// commits again: whoever came too early to see what is synced would otherwise, under load, always do so.
func (f *File) viewOfNext(ctx context.Context) (*bolt.Tx, error) {
	begun, once := make(chan *bolt.Tx, 1), false
	o := &Op{Run: func(Batch) error {
		if once { // it runs again
			return nil
		}
		t, err := f.begin(false)
		if err == nil {
			once = true
			begun <- t
		}
		return err
	}}
	if err := f.queue.push(o); err != nil {
		return nil, err
	}
	ended := ctx.Done()
	for {
		select {
		case t := <-begun:
			return t, nil
		case err := <-o.done:
			select {
			case t := <-begun:
				return t, nil
			default:
				return nil, err
			}
		case <-ended:
			if o.state.CompareAndSwap(opQueued, opWithdrawn) {
				return nil, ctx.Err()
			}
			ended = nil
		}
	}
}
