package boltfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// Leftovers is a pattern that matches the names under which databases for path are made.
func Leftovers(path string) string { return filepath.Base(path) + ".new-*" }

// create makes an empty database at path. It makes it aside, for a power cut in the middle of it can leave a file that
// never opens again. When another process was quicker, its file stays; it may have removed ours as a leftover.
func create(path string, o Options) error {
	err := files.Create(path, Leftovers(path), func(f *os.File) error {
		files.Give(f, path)
		b, err := OpenBolt(f.Name(), o)
		if err != nil {
			return err
		}
		return errors.Join(Update(b, o.Format.Fill), b.Close())
	})
	if errors.Is(err, fs.ErrExist) || err != nil && files.Exists(path) {
		return nil
	}
	return err
}
