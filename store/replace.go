package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A database file is never changed in place but by bbolt. Whatever else is to change it, a mended
// meta page, a compaction or a restore, is done in a copy under a leftover's name, which is
// verified, synced and then renamed over the path. So a stop at any moment leaves the old file or
// the new one, and at most a leftover that the next Open removes.

// holds reports whether path still names the open file f. A process that waited for the lock of a
// file may get it when another one has just put a new file in its place.
func holds(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// aside makes up a name for the file at path that nobody has yet.
func aside(path, why string, now time.Time) string {
	base := path + "." + why + "-" + now.UTC().Format("20060102T150405Z")
	name := base
	for n := 2; exists(name); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

// replace puts the file temp in the place of path. With a name to keep it by, the file that was
// there gets that; it is not overwritten. Where the file system has links there is a database
// under path at every moment.
func replace(path, temp, keep string) error {
	dir := filepath.Dir(path)
	if keep != "" {
		err := os.Link(path, keep)
		if err != nil && !exists(keep) {
			err = os.Rename(path, keep)
		}
		if err := errors.Join(err, syncDir(dir)); err != nil {
			return fmt.Errorf("keep the old file: %w", err)
		}
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// tempFor makes an empty file beside path, under a leftover's name. As far as we may give it away it
// belongs to whom the file at path belongs, or else its folder: what an operator restores as root
// the server must be able to open.
func tempFor(path string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), leftoverPattern(path)) // mode 0600
	if err != nil {
		return nil, err
	}
	of, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		of, err = os.Stat(filepath.Dir(path))
	}
	if err == nil && os.Geteuid() == 0 {
		if owner, ok := of.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(owner.Uid), int(owner.Gid)) // otherwise it stays ours
		}
	}
	return f, nil
}

// copyFor copies everything r gives into a temporary file for path and syncs it. The caller
// removes it; when an error comes back it is removed already.
func copyFor(path string, r io.Reader) (temp string, err error) {
	f, err := tempFor(path)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// mendMeta puts a copy of the open file f in the place of path, with the broken meta page as m
// says it was. The damaged file stays beside it, under the name that is returned.
func mendMeta(path string, f *os.File, m metas, o Options) (kept string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	temp, err := copyFor(path, io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		return "", err
	}
	defer os.Remove(temp)
	t, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	_, err = t.WriteAt(m.mended, m.at)
	if err == nil {
		err = t.Sync()
	}
	if err == nil {
		_, err = look(t)
	}
	if err := errors.Join(err, t.Close()); err != nil {
		return "", err
	}
	kept = aside(path, "damaged", o.Now())
	return kept, replace(path, temp, kept)
}

// Compaction pays above worthCompacting bytes, and when the file is compactFrom times its live data.
const (
	worthCompacting = 8 << 20
	compactFrom     = 2
)

// bloated reports whether the file f, which b has open, is worth compacting.
func bloated(b *bolt.DB, f *os.File) (size int64, yes bool) {
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	var used int64
	err = b.View(func(t *bolt.Tx) error {
		used = t.Size()
		return nil
	})
	live := used - int64(b.Stats().FreePageN)*pageSize
	return info.Size(), err == nil && info.Size() > worthCompacting && info.Size() > compactFrom*live
}

// compact puts a copy of the database b without its free pages in the place of path.
//
// It is done before the database is used, not while it runs: bbolt reads through a mapping of the
// one file it opened, so a swap would have to wait for every reader and stop the writer, and
// until the next start the free pages are what new messages go into first. Nothing is lost by
// waiting but disk space that was needed before.
func compact(path string, b *bolt.DB, was found, o Options) error {
	f, err := tempFor(path)
	if err != nil {
		return err
	}
	temp := f.Name()
	defer os.Remove(temp)
	if err := errors.Join(f.Close(), compactInto(temp, b, o)); err != nil {
		return err
	}
	if f, err = os.OpenFile(temp, os.O_RDWR, 0); err != nil {
		return err
	}
	is, err := look(f)
	if err == nil && is.records != was.records {
		err = fmt.Errorf("%w: the copy holds other records", ErrDamaged)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return replace(path, temp, "")
}

// compactInto copies all records of b into the empty file temp. It does not sync it.
func compactInto(temp string, b *bolt.DB, o Options) error {
	o.OpenFile = os.OpenFile // what a test wants to hear of is the database
	dst, err := openBolt(temp, o)
	if err != nil {
		return err
	}
	dst.NoSync = true // as a whole, by the caller
	return errors.Join(bolt.Compact(dst, b, batchBytes), dst.Close())
}
