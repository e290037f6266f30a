package handler

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// State is the runner's own folder: its key, its journal, and a folder for each thread. A cage shows only its thread's
// folder.
type State struct {
	dir string
	key []byte // for threadID and the journal's digests
}

// keySize is the length of the key, in bytes.
const keySize = 32

// OpenState opens the folder at dir, which it makes if it is not there.
func OpenState(dir string) (*State, error) {
	dir = resolved(dir)
	threads := filepath.Join(dir, "threads")
	if err := os.MkdirAll(threads, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "key")
	err := files.Create(path, "key.new-*", func(f *os.File) error {
		key := make([]byte, keySize)
		_, _ = rand.Read(key) // never fails
		_, err := f.Write(key)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the key of the threads: %w", err)
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%s has %d bytes, want %d: remove it, and every conversation begins anew", path, len(key), keySize)
	}
	if err != nil {
		return nil, err
	}
	return &State{dir: dir, key: key}, nil
}

// threadID returns the UUID by which h knows a conversation. It is the same each time and differs between handlers.
// Without the key, nobody can find out from it whose conversation it is.
func (s *State) threadID(h *Handler, conversation string) string {
	mac := hmac.New(sha256.New, s.key)
	_, _ = fmt.Fprintf(mac, "%s\x00%s", h.Name, conversation) // a name contains no zero byte
	id := mac.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, RFC 9562: its maker chooses the content
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// folder returns the thread's folder. It makes the folder if there is none.
func (s *State) folder(thread string) (string, error) {
	dir := filepath.Join(s.dir, "threads", thread)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, touch(dir)
}

// touch marks a thread's folder as in use now, and makes it writable: a program may change the folder's time and mode.
func touch(dir string) error {
	now := time.Now()
	return errors.Join(os.Chmod(dir, 0o700), os.Chtimes(dir, now, now))
}

// sweep removes the folders of threads that have been idle for longer than idleAfter. Meanwhile no program may run.
func (s *State) sweep(ctx context.Context, now time.Time) error {
	root := filepath.Join(s.dir, "threads")
	all, err := os.ReadDir(root)
	for _, e := range all {
		st, statErr := e.Info()
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if statErr == nil && now.Sub(st.ModTime()) > idleAfter {
			err = errors.Join(err, remove(filepath.Join(root, e.Name())))
		}
	}
	return err
}

// Discard removes the runner's folder with all that is in it.
func (s *State) Discard() error { return remove(s.dir) }

// remove removes a folder, even if a program has removed the permissions of folders in it.
func remove(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // false for a link to a folder
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}
