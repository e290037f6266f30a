package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A backup is the file as one commit left it, and a trailer behind its last page that says when
// it was made. Nothing reads that far in a database, so a backup is one as it stands.
const (
	trailerMagic = "hermes-connector backup\n"
	trailerSize  = len(trailerMagic) + 8 + 4 // the time in Unix seconds and the checksum of both
)

// BackupInfo describes a backup.
type BackupInfo struct {
	At     time.Time // to the second
	Bytes  int64
	Commit uint64 // as Committed
}

// Committed is the number of the newest commit: as long as it stays the same, so does the
// content. It starts anew in a file that was compacted.
func (db *DB) Committed() uint64 { return uint64(db.w.synced.Load()) }

// Backup writes the database as it is now to w. It goes on being used meanwhile; what is
// committed later is not in the backup. Everything is checked before it is copied: ErrDamaged,
// with what is damaged named, when something is, and then nothing was written. It ends early with
// the error of ctx or of w, and what w got is worth nothing then. The vault's key is not in it.
//
// On 32-bit hosts the writer waits for it once, if the file passes 256 MiB just then.
func (db *DB) Backup(ctx context.Context, w io.Writer) (BackupInfo, error) {
	var info BackupInfo
	err := db.w.read(ctx, func(t *bolt.Tx) error {
		info.At, info.Commit = db.now().Truncate(time.Second), uint64(t.ID())
		u := &until{ctx: ctx, r: db.w.file, w: w}
		m := meta{pageSize: pageSize, root: uint64(t.Cursor().Bucket().Root()), pages: uint64(t.Size()) / pageSize}
		got, err := walkPages(u, m)
		if err == nil {
			err = got.err()
		}
		if err != nil {
			return err
		}
		if info.Bytes, err = t.WriteTo(u); err != nil {
			return cmp.Or(u.err, err) // bbolt hands on the text of some
		}
		n, err := w.Write(trailer(info.At))
		info.Bytes += int64(n)
		return err
	})
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	return info, nil
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

func trailer(at time.Time) []byte {
	b := binary.BigEndian.AppendUint64([]byte(trailerMagic), uint64(at.Unix()))
	return binary.BigEndian.AppendUint32(b, checksum(b, nil))
}

// madeAt is when the backup f of size bytes was made; false when it has no trailer, as a copy of
// the file that was made by hand.
func madeAt(f io.ReaderAt, size int64) (time.Time, bool) {
	b := make([]byte, trailerSize)
	if _, err := f.ReadAt(b, size-int64(trailerSize)); err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, false
	}
	at := time.Unix(int64(binary.BigEndian.Uint64(b[len(trailerMagic):])), 0)
	return at.UTC(), string(b) == string(trailer(at))
}
