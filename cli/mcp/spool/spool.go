// Package spool keeps people's messages on disk until a client confirms that it has them, and for some time after that.
// A spool is one file, with a line for each thing that happened, and a folder for the files that came with messages.
// The package knows neither the wire nor MCP.
//
// Invariants:
//
//  1. When Append, Confirm, Begin or Finish returns without an error, its line is synced.
//  2. A cursor names one event, for ever. Cursors grow, and are below 2^53; those of a new spool start at the time when
//     it was made, in Unix milliseconds.
//  3. A confirmed event is never given to a client again, and an unconfirmed one is never dropped.
//  4. A delivery that comes again is the same event.
//  5. One process has the spool: the one that holds its lock.
//  6. A last line that was not written to its end was never acted upon, and is cut off. Damage anywhere else is an
//     error.
package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// The limits for unconfirmed events. When one of them is reached, the spool is full; it takes more events when it is
// below half of all of them.
const (
	MaxEvents = 1000
	MaxBytes  = 16 << 20  // bytes of the events' lines
	MaxFiles  = 512 << 20 // bytes of the events' files
)

// Held is the error if another process has the spool. PID is that process; 0: not known.
type Held struct{ PID int }

func (h Held) Error() string { return fmt.Sprintf("held by process %d", h.PID) }

// Options are the settings of a spool.
type Options struct {
	Gateway relay.GatewayID // the gateway whose spool it is
	History int             // how many confirmed or sent messages of a chat are kept; 0: none
	Now     func() time.Time
}

// Spool is an open spool. Its methods may be called from any goroutine.
type Spool struct {
	// Set once, by Open.
	dir  string
	o    Options
	lock *os.File // locked until Close

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	file    *os.File
	size    int64 // of the file's complete lines
	closed  bool
	stale   bool  // the file may contain confirmed events, although no history is to be kept
	broken  error // why the last line could not be written, so that the file's content is unknown; nil: it was
	memory
}

// Open opens the spool in the folder dir, and makes it if there is none. The error is a Held if another process has it.
func Open(dir string, o Options) (*Spool, error) {
	s := &Spool{dir: dir, o: o, changed: make(chan struct{}), memory: newMemory(o.History), stale: o.History == 0}
	if err := os.MkdirAll(s.FilePath(""), 0o700); err != nil {
		return nil, err
	}
	var err error
	if s.lock, err = takeLock(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

const (
	lockName   = "lock"
	spoolName  = "spool"
	filesName  = "files"
	leftovers  = spoolName + ".new-*"
	unfinished = "new-*" // files that are being fetched
)

// open reads the file, and cuts off an incomplete end.
func (s *Spool) open() error {
	if err := files.RemoveLeftovers(s.dir, leftovers); err != nil {
		return err
	}
	whole, err := s.load(s.path(), s.o.Now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.head = head{Version: version, Gateway: s.o.Gateway, Next: max(1, Cursor(s.o.Now().UnixMilli()))}
		s.head.Birth = s.head.Next
		if err := s.rewrite(); err != nil {
			return err
		}
		return s.removeFiles()
	case err != nil:
		return fmt.Errorf("%s: %w", s.path(), err)
	case s.head.Gateway != s.o.Gateway:
		return fmt.Errorf("the spool in %s is that of the gateway %q: name another folder with --state", s.dir, s.head.Gateway)
	}
	if s.file, err = os.OpenFile(s.path(), os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err = s.file.Truncate(whole); err == nil { // the rest is a line that was not written whole
		s.size, err = whole, s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Close())
	}
	for _, m := range s.order {
		m.Known = true
	}
	return s.removeFiles()
}

// removeFiles removes the files that no message has, and forgets those that are not there.
func (s *Spool) removeFiles() error {
	all, err := os.ReadDir(s.FilePath(""))
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	for _, f := range all {
		there[f.Name()] = true
	}
	for _, m := range s.order {
		if m.Entry == nil {
			continue
		}
		for i, f := range m.Files {
			if f.Name != "" && !there[f.Name] {
				m.Files[i].Name = ""
			}
			delete(there, f.Name)
		}
	}
	for name := range there {
		if err := os.Remove(s.FilePath(name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spool) path() string { return filepath.Join(s.dir, spoolName) }

// FilePath returns the path of a file of the spool.
func (s *Spool) FilePath(name string) string { return filepath.Join(s.dir, filesName, name) }

// Close closes the spool, and unlocks it for other processes.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var err error
	if s.file != nil {
		err = s.file.Close() // all that counts was synced
	}
	return errors.Join(err, s.lock.Close())
}

// Changed returns a channel that is closed at the next change of the waiting events.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Spool) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Broken returns why the spool cannot be written; nil: it can.
func (s *Spool) Broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Mend writes the file anew if the spool could not be written before.
func (s *Spool) Mend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		return nil
	}
	return s.rewrite()
}

// takeLock locks the file, and writes this process's id into it.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = Held{holder(path)}
		}
		return nil, errors.Join(err, f.Close())
	}
	if _, err = f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// holder returns the process that the lock file names.
func holder(path string) int {
	raw, _ := os.ReadFile(path) // without it, nobody is named
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}

// State is the state of a spool, for processes that do not hold it.
type State struct {
	PID          int   // of the process that has the spool; 0: none has
	Waiting      int   // events that are not confirmed
	Bytes, Files int64 // of these events: the bytes of their lines, and those of their files
	Full         bool
}

// Look reads the state of the spool in dir and changes nothing. It returns fs.ErrNotExist if there is none.
func Look(dir string) (st State, err error) {
	m := newMemory(0)
	if _, err := m.load(filepath.Join(dir, spoolName), time.Now()); err != nil {
		return st, err
	}
	st = State{Waiting: len(m.waiting), Bytes: m.bytes, Files: m.files, Full: m.full(1)}
	lock := filepath.Join(dir, lockName)
	f, err := os.Open(lock)
	if err != nil {
		return st, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		st.PID = holder(lock)
	}
	return st, nil
}
