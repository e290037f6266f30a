package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// FileKey returns the key in the file at path: 64 hexadecimal digits and a newline, mode 0600. The file is made when a
// vault is made and there is no file yet, and never replaced. It is refused when another user can read or write it
// (files.Private), when it is no regular file (a symbolic link, say), and when it does not hold a key.
func FileKey(path string) Key { return fileKey{path} }

type fileKey struct{ path string }

func (fileKey) origin() origin { return originKey }
func (k fileKey) Name() string { return "key file " + k.path }

func (k fileKey) open(*kdf) (relay.Secret, error) {
	s, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		return relay.Secret{}, fmt.Errorf("%w: %s is not there, and what this database has sealed opens with no other. Put your copy of it back; %s",
			ErrKeyLost, k.path, ifGone)
	}
	return s, err
}

func (k fileKey) create() (relay.Secret, *kdf, error) {
	s, err := k.read() // a crash may have left a key file before there was a vault
	if errors.Is(err, fs.ErrNotExist) {
		if err := k.write(randomKey()); err != nil {
			return relay.Secret{}, nil, fmt.Errorf("new %s: %w", k.Name(), err)
		}
		// Read back: the next start will do the same, so a failure should show now (a file system without permissions).
		// If another process was faster, this reads that process's key.
		s, err = k.read()
	}
	if err == nil {
		// A file that a process left when it died in write may be a second copy of the key. Another process that is in
		// write now loses nothing by the removal: the key exists already.
		if err = files.RemoveLeftovers(filepath.Dir(k.path), k.leftoverPattern()); err != nil {
			err = fmt.Errorf("a copy of %s: %w", k.Name(), err)
		}
	}
	return s, nil, err
}

// leftoverPattern matches the names under which new keys for path are written.
func (k fileKey) leftoverPattern() string { return filepath.Base(k.path) + ".new-*" }

// read returns the key in the file, if the file is fit to hold one. The error is fs.ErrNotExist only if nothing at all
// is at the path.
func (k fileKey) read() (relay.Secret, error) {
	refuse := func(what string) (relay.Secret, error) {
		return relay.Secret{}, fmt.Errorf("%w: %s %s", ErrKeyRefused, k.Name(), what)
	}
	seen, err := os.Lstat(k.path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.Name(), err)
	}
	if !seen.Mode().IsRegular() { // before opening, which could block on a pipe
		return refuse("is no regular file; put the file itself in this place")
	}
	f, err := os.Open(k.path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.Name(), err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.Name(), err)
	}
	if !os.SameFile(seen, opened) {
		return refuse("was exchanged while it was being opened")
	}
	if files.Private(k.path, opened) != nil {
		return refuse(fmt.Sprintf("can be used by others (mode %04o); run: chmod 600 %s", opened.Mode().Perm(), k.path))
	}
	return readKey(f, k.Name())
}

// write puts the key on disk so that the file has all of it or does not exist, even after a power cut. If another
// process has made the file meanwhile, write leaves the file unchanged and returns nil.
func (k fileKey) write(key relay.Secret) error {
	err := files.Create(k.path, k.leftoverPattern(), func(f *os.File) error {
		files.Give(f, k.path)
		_, err := fmt.Fprintf(f, "%x\n", key.Reveal())
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
