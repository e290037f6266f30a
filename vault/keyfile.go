package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hermes-connector/hermes-connector/relay"
)

// FileKey is the key in the file at path: 64 hexadecimal digits and a newline, mode 0600. It is
// made when a vault is made and there is no file yet; a file that exists is never replaced. It is
// refused when others can read or write it, when it is no regular file (a symbolic link, say),
// and when it does not hold a key.
func FileKey(path string) Key { return fileKey{path} }

type fileKey struct{ path string }

func (fileKey) origin() origin { return originKey }
func (k fileKey) name() string { return "key file " + k.path }

func (k fileKey) open(*kdf) (relay.Secret, error) {
	s, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		return relay.Secret{}, fmt.Errorf("%w: %s is not there, and what this database has sealed opens with no other. Put your copy of it back; %s",
			ErrKeyLost, k.path, ifGone)
	}
	return s, err
}

func (k fileKey) create() (relay.Secret, *kdf, error) {
	s, err := k.read() // there may be one that a crash left without a vault
	if errors.Is(err, fs.ErrNotExist) {
		if err := k.write(randomKey()); err != nil {
			return relay.Secret{}, nil, fmt.Errorf("new %s: %w", k.name(), err)
		}
		// Read back: this is what the next start will do, so it should fail now if ever (a file
		// system without permissions), and if another process was faster it is that one's key.
		s, err = k.read()
	}
	if err == nil {
		err = k.removeLeftovers()
	}
	return s, nil, err
}

// leftoverPattern matches the names under which new keys for path are written.
func (k fileKey) leftoverPattern() string { return filepath.Base(k.path) + ".new-*" }

// removeLeftovers deletes what a process that died in write left behind, which may be a second
// copy of the key. One that is in write now finds that the key is there.
func (k fileKey) removeLeftovers() error {
	dir := filepath.Dir(k.path)
	names, err := fs.Glob(os.DirFS(dir), k.leftoverPattern())
	if err != nil { // the name contains a bracket; then leftovers stay
		return nil
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a copy of %s stays behind: %w", k.name(), err)
		}
	}
	return nil
}

// read returns an error that is fs.ErrNotExist only if nothing at all is at the path.
func (k fileKey) read() (relay.Secret, error) {
	refuse := func(what string) (relay.Secret, error) {
		return relay.Secret{}, fmt.Errorf("%w: %s %s", ErrKeyRefused, k.name(), what)
	}
	seen, err := os.Lstat(k.path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.name(), err)
	}
	if !seen.Mode().IsRegular() { // before opening, which could block on a pipe
		return refuse("is no regular file; put the file itself in this place")
	}
	f, err := os.Open(k.path)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.name(), err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%s: %w", k.name(), err)
	}
	if !os.SameFile(seen, opened) {
		return refuse("was exchanged while it was being opened")
	}
	if mode := opened.Mode().Perm(); mode&0o077 != 0 {
		return refuse(fmt.Sprintf("can be used by others (mode %04o); run: chmod 600 %s", mode, k.path))
	}
	return readKey(f, k.name())
}

// write puts the key on disk so that the path holds all of it or nothing, also after a power
// cut. If the path has come to exist meanwhile, it stays as it is and that is no error.
func (k fileKey) write(key relay.Secret) (err error) {
	dir := filepath.Dir(k.path)
	tmp, err := os.CreateTemp(dir, k.leftoverPattern()) // O_EXCL, mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if rm := os.Remove(tmp.Name()); err == nil && !errors.Is(rm, fs.ErrNotExist) {
			err = rm
		}
		if err == nil {
			err = syncDir(dir)
		}
	}()
	giveTo(dir, tmp)
	_, err = tmp.Write(formatKey(key))
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return publish(tmp.Name(), k.path, os.Link)
}

// publish gives the file temp the name path, unless there is one already. A link, not a rename: a
// rename would replace what is there. It is for file systems without links, where the lock of the
// database keeps others from making a key meanwhile.
func publish(temp, path string, link func(from, to string) error) error {
	if err := link(temp, path); err == nil {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return os.Rename(temp, path)
}

// giveTo gives f, when root has made it, to the owner of the folder dir, as far as it may: the server
// that is to read it rarely runs as root.
func giveTo(dir string, f *os.File) {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(owner.Uid), int(owner.Gid)) // otherwise it stays ours
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
