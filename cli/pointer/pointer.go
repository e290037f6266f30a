// Package pointer lets commands find the servers that run on this machine: each server leaves a small file, its
// pointer, which says where its data folder and its admin socket are.
//
// A pointer proves nothing: whether the server still runs, its socket says. What stands in one came from this user, or
// from one whom this user trusts with the folder.
//
// Invariants:
//
//  1. Only its owner can read or change a pointer (mode 0600, as the socket).
//  2. A pointer appears whole or not at all, and goes with the server unless it is killed.
//  3. A server has one pointer, however often it was killed: the name comes from the data folder.
package pointer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	ending    = ".server"
	leftovers = ".server-*"
	folder    = "hermes-connector"
	// maxPointer is the most that is read of a pointer, in bytes: a few paths.
	maxPointer = 16 << 10
)

// systemFolder is where a server of the system has its pointer.
const systemFolder = "/run/" + folder

// Server is a server of this machine. Paths are absolute.
type Server struct {
	DataDir string `json:"dataDir"`
	Socket  string `json:"socket"`
	Config  string `json:"config,omitempty"` // its file; empty: it has none
	PID     int    `json:"pid"`
}

// Folders are where pointers may be, for a process with such an environment: the folder of the service ($RUNTIME_DIRECTORY)
// and no other, else that of the user and that of the system. A server leaves its pointer in the first. The user's
// folder that is another's, as su leaves it behind, is not taken: root would ask whatever server that user names.
func Folders(env func(name string) string, uid int) (all []string) {
	if own, _, _ := strings.Cut(env("RUNTIME_DIRECTORY"), ":"); filepath.IsAbs(own) {
		return []string{own}
	}
	if user := env("XDG_RUNTIME_DIR"); filepath.IsAbs(user) && !anothers(user, uid) {
		all = append(all, filepath.Join(user, folder))
	} else if uid != 0 {
		all = append(all, "") // no place of its own
	}
	return append(all, systemFolder)
}

// anothers reports whether a folder is there and is not that user's.
func anothers(dir string, uid int) bool {
	st, err := os.Stat(dir)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) != uid
}

// Leave writes the pointer of s into the first of the folders, which it makes, and returns what removes it again. Without
// such a place nothing is written.
func Leave(folders []string, s Server) (remove func() error, err error) {
	if len(folders) == 0 || folders[0] == "" {
		return func() error { return nil }, nil
	}
	sum := sha256.Sum256([]byte(s.DataDir))
	path := filepath.Join(folders[0], hex.EncodeToString(sum[:8])+ending)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("pointer: %w", err)
	}
	if err := os.MkdirAll(folders[0], 0o755); err != nil { // others may look whether a server runs, and not where
		return nil, fmt.Errorf("pointer: %w", err)
	}
	f, err := files.Temp(path, leftovers)
	if err != nil {
		return nil, fmt.Errorf("pointer: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pointer: %w", err), os.Remove(f.Name()))
	}
	return func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pointer: %w", err)
		}
		return nil
	}, nil
}

// All are the servers that left a pointer in one of the folders, each data folder once; hidden says that there are
// pointers which this user may not read. Some of these servers may have been killed since.
func All(folders []string) (all []Server, hidden bool) {
	for _, dir := range folders {
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		hidden = hidden || errors.Is(err, fs.ErrPermission)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ending) {
				continue
			}
			s, err := read(filepath.Join(dir, e.Name()))
			hidden = hidden || errors.Is(err, fs.ErrPermission)
			if err == nil && !known(all, s) {
				all = append(all, s)
			}
		}
	}
	return all, hidden
}

// known reports whether a server with that data folder is among all.
func known(all []Server, s Server) bool {
	for i := range all {
		if all[i].DataDir == s.DataDir {
			return true
		}
	}
	return false
}

// read reads a pointer. One that others could have written is none.
func read(path string) (s Server, err error) {
	st, err := os.Lstat(path)
	if err != nil {
		return s, err
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 || st.Size() > maxPointer {
		return s, errors.New("no pointer of ours")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, err
	}
	if !filepath.IsAbs(s.DataDir) || !filepath.IsAbs(s.Socket) {
		return s, errors.New("no pointer of ours")
	}
	return s, nil
}
