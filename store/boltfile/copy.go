package boltfile

import (
	"cmp"
	"context"
	"io"

	bolt "go.etcd.io/bbolt"
)

// Copy writes the file as the newest commit left it to w. It checks everything first: ErrDamaged names the damage, and
// then nothing was written. After an error of ctx or of w, the content of w is worthless. at is called once, with the
// number of the commit and its place in the log.
func (f *File) Copy(ctx context.Context, w io.Writer, at func(commit uint64, place Place)) (n int64, err error) {
	err = f.Read(ctx, func(t *bolt.Tx) error {
		place, err := PlaceOf(t)
		if err != nil {
			return err
		}
		at(uint64(t.ID()), place)
		u := &until{ctx: ctx, r: f.file, w: w}
		m := meta{pageSize: PageSize, root: uint64(t.Cursor().Bucket().Root()), pages: uint64(t.Size()) / PageSize, txid: uint64(t.ID())}
		got, err := walkPages(u, m)
		if err == nil {
			err = cmp.Or(got.Misses(), Named(got.Bad))
		}
		if err != nil {
			return err
		}
		n, err = t.WriteTo(u)
		return cmp.Or(u.err, err) // bbolt passes on only the text of some errors
	})
	return n, err
}

// until reads and writes until ctx ends.
type until struct {
	ctx context.Context
	r   io.ReaderAt
	w   io.Writer
	err error // of a Write
}

func (u *until) ReadAt(p []byte, at int64) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.ReadAt(p, at)
}

func (u *until) Write(p []byte) (n int, err error) {
	if err = u.ctx.Err(); err == nil {
		n, err = u.w.Write(p)
	}
	u.err = err
	return n, err
}
