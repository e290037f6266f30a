// Package files makes files that appear whole or not at all. It writes and syncs a file under another name in the
// same folder, and then gives the file its own name. A process that dies in between leaves at most a leftover,
// which the next process removes. Watched reads files that others write, and reads them again when they change.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Temp makes an empty file (mode 0600) beside path, under a name that pattern matches. Its error names the folder.
func Temp(path, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), pattern)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = filepath.Dir(path)
	}
	return f, err
}

// Give gives f, when root has made it, to the owner of the file at path, or else to the owner of its folder. The
// server must be able to open what an operator makes as root.
func Give(f *os.File, path string) {
	of, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		of, err = os.Stat(filepath.Dir(path))
	}
	if err != nil || os.Geteuid() != 0 {
		return
	}
	if owner, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(owner.Uid), int(owner.Gid)) // after an error f still belongs to root
	}
}

// Create makes the file path with the content that fill writes. fs.ErrExist: the file exists already, and is unchanged.
func Create(path, pattern string, fill func(*os.File) error) error {
	return Aside(path, pattern, fill, func(temp string) error { return publish(temp, path, os.Link) })
}

// Aside makes a file beside path, under a name that pattern matches, with the content that fill writes, and syncs it.
// Then put gives the file its name. After an error no part of the file is left behind.
func Aside(path, pattern string, fill func(*os.File) error, put func(temp string) error) (err error) {
	f, err := Temp(path, pattern)
	if err != nil {
		return err
	}
	defer func() {
		if rm := os.Remove(f.Name()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}()
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return put(f.Name())
}

// publish gives the synced file temp the name path. It makes a link, because a rename would replace a file that is at
// path already. It renames only on a file system without links.
func publish(temp, path string, link func(from, to string) error) error {
	err := link(temp, path)
	switch {
	case err == nil:
		// Another process that made the same file may have removed temp, as the leftover of a process that died.
		if err = os.Remove(temp); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case Exists(path):
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	default:
		err = os.Rename(temp, path)
	}
	return errors.Join(err, SyncDir(filepath.Dir(path)))
}

// Replace gives the synced file temp the name path. Unless keep is empty, the old file stays under the name keep,
// which must be free. On a file system with links there is a file under path at every moment.
func Replace(temp, path, keep string) error {
	dir := filepath.Dir(path)
	if keep != "" {
		err := os.Link(path, keep)
		if err != nil && !Exists(keep) {
			err = os.Rename(path, keep)
		}
		if err := errors.Join(err, SyncDir(dir)); err != nil {
			return fmt.Errorf("keep the old file: %w", err)
		}
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// RemoveLeftovers removes the files in the folder dir that pattern matches. Its error names those that stay.
func RemoveLeftovers(dir, pattern string) error {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil { // a bracket in the name can make pattern invalid; then leftovers stay
		return nil
	}
	var all []error
	for _, n := range names {
		if err := os.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, fmt.Errorf("a leftover stays behind: %w", err))
		}
	}
	return errors.Join(all...)
}

// Exists reports whether something has the name path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// SyncDir makes the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
