package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// A power cut while a bbolt file is being initialised can leave one that never opens again.
// So a new database is made under another name, synced, and given its own when it is whole.

// leftoverPattern matches the names under which databases for path are made.
func leftoverPattern(path string) string { return filepath.Base(path) + ".new-*" }

// create makes an empty database at path. When another process was quicker, its file stays.
func create(path string, o Options) error {
	dir := filepath.Dir(path)
	// The other one may also have taken our unfinished file for a leftover.
	if err := createIn(path, o); err != nil && !exists(path) {
		return err
	}
	return syncDir(dir)
}

func createIn(path string, o Options) error {
	f, err := tempFor(path)
	if err != nil {
		return err
	}
	temp := f.Name()
	defer os.Remove(temp)
	if err := errors.Join(f.Close(), fill(temp, o)); err != nil {
		return err
	}
	// A link, unlike a rename, cannot replace a database that has appeared meanwhile. A rename
	// is for file systems without links.
	err = os.Link(temp, path)
	if err != nil && !exists(path) {
		err = os.Rename(temp, path)
	}
	return err
}

// fill makes an empty database of the file temp and syncs it.
func fill(temp string, o Options) error {
	b, err := openBolt(temp, o)
	if err != nil {
		return err
	}
	if err := errors.Join(initialise(b), b.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// syncDir makes a name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeLeftovers deletes what a process that died in create left behind. The file under path
// is open and locked: nobody can be in create for it and win.
func removeLeftovers(path string, log *slog.Logger) {
	names, err := fs.Glob(os.DirFS(filepath.Dir(path)), leftoverPattern(path))
	if err != nil { // the name contains a bracket; then leftovers stay
		return
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(filepath.Dir(path), n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("an unfinished database stays behind", "err", fmt.Errorf("remove leftover: %w", err))
		}
	}
}
