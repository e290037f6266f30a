package media

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hermes-connector/hermes-connector/relay"
)

// partSuffix ends the name of a file that is being written. What is called so is nobody's after a crash.
const partSuffix = ".part"

// path is where the file of a record is.
func (k *Keeper) path(id relay.MediaID) string { return filepath.Join(k.dir, string(id)) }

// remove removes the file of a record that is gone. One that cannot be removed is the next start's.
func (k *Keeper) remove(id relay.MediaID) {
	k.mu.Lock()
	delete(k.sound, id)
	delete(k.used, id)
	k.mu.Unlock()
	if err := os.Remove(k.path(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.log.Warn("a file was not removed; the next start tries again", "media", id)
	}
	k.room.drop(id)
}

// Free is how many bytes the system gives us on the disk of a folder.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // their types differ between systems
}

// isFull reports whether the disk, not the file's source, is what failed.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
