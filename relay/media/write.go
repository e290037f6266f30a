package media

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// folder is the folder of the files.
type folder struct {
	// Set once.
	dir   string
	sniff func(io.ReaderAt, int64) relay.FileFacts
	step  func(string)

	mu     sync.Mutex             // guards the field below
	proven map[relay.MediaID]bool // files whose bytes were written or compared in this run
}

// sound notes that the bytes of a file match its record.
func (d *folder) sound(id relay.MediaID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proven[id] = true
}

// isSound reports whether sound was called for a file in this run.
func (d *folder) isSound(id relay.MediaID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proven[id]
}

func (d *folder) remove(id relay.MediaID) error {
	d.mu.Lock()
	delete(d.proven, id)
	d.mu.Unlock()
	return os.Remove(d.path(id))
}

// written is a file that is on disk, under its name.
type written struct {
	facts relay.FileFacts
	sum   uint32
}

// write makes the file of a record from the content of r: it syncs the file, and then gives it its name. After an error
// there is no file. ErrTooLarge: r has more than MaxFile.
func (d *folder) write(id relay.MediaID, r io.Reader) (w written, err error) {
	part := d.path(id) + partSuffix
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(part) // if it stays, the next start removes it
		}
	}()
	d.step("made")
	sum := crc32.New(castagnoli())
	// Hides everything except Read and Write, so that the copy uses one buffer of this size whatever the two ends can
	// do.
	to, from := struct{ io.Writer }{io.MultiWriter(f, sum)}, struct{ io.Reader }{io.LimitReader(r, MaxFile+1)}
	n, err := io.CopyBuffer(to, from, make([]byte, bufferLen))
	switch {
	case err != nil:
		return w, fmt.Errorf("file: %w", bare(err))
	case n > MaxFile:
		return w, ErrTooLarge
	case n == 0:
		return w, ErrEmpty
	}
	d.step("written")
	w.sum = sum.Sum32()
	w.facts = d.sniff(f, n)
	w.facts.Size = n
	if err := f.Sync(); err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	d.step("synced")
	if err := os.Rename(part, d.path(id)); err != nil {
		return w, fmt.Errorf("file: %w", bare(err))
	}
	d.step("named")
	if err := files.SyncDir(d.dir); err != nil {
		_ = os.Remove(d.path(id))
		return w, fmt.Errorf("file: %w", bare(err))
	}
	d.step("name synced")
	return w, nil
}

// bare returns a system's error without the path.
func bare(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// nameless returns an open file that not even a crash leaves behind.
func (d *folder) nameless(id relay.MediaID) (*os.File, error) {
	path := d.path(id) + partSuffix
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// partSuffix is the suffix of a file that is being written. After a crash such a file belongs to nobody.
const partSuffix = ".part"

// path returns the path of a record's file.
func (d *folder) path(id relay.MediaID) string { return filepath.Join(d.dir, string(id)) }

// Free returns how many bytes the system lets us write on a folder's disk.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // their types differ between systems
}

// isFull reports whether err says that the disk is full, or that our share of it is.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
