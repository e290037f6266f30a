package handler

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// maxJournal is how many deliveries the journal remembers.
const maxJournal = 1000

// journal remembers of the last deliveries whether their program began and whether it ended. It is one file, with a
// line for each beginning and each end. A line is on disk before the runner acts upon it. The file contains nothing
// that people wrote.
type journal struct {
	path    string
	key     []byte   // of the digests
	lock    *os.File // locked from openJournal until close
	file    *os.File
	lines   int     // at least as many as file has
	entries []entry // oldest first
}

// entry is one delivery in the journal.
type entry struct {
	key  string // a digest of the buffer id and of the message's id: buffer ids begin anew when a backup is restored
	done bool
}

// errHeld: another runner has locked the journal.
var errHeld = errors.New("another runner uses this folder: one runs for each, or name another with --state")

// openJournal opens the journal in the runner's folder, and keeps other runners from it until close.
func openJournal(s *State) (*journal, error) {
	j := &journal{path: filepath.Join(s.dir, "journal"), key: s.key}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(errHeld, j.lock.Close())
	}
	if err := j.load(); err != nil {
		return nil, errors.Join(err, j.lock.Close())
	}
	return j, nil
}

// load reads the entries from the file, and writes the file anew.
func (j *journal) load() error {
	raw, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := files.RemoveLeftovers(filepath.Dir(j.path), "journal.new-*"); err != nil {
		return err
	}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1] // a line without its end was never acted upon
	for line := range strings.Lines(string(whole)) {
		if err := j.read(strings.Fields(line)); err != nil {
			return fmt.Errorf("%s: %w: look at it, then remove it; what it knew of may run once more", j.path, err)
		}
	}
	return j.rewrite()
}

// read adds the words of one line, "begin KEY" or "done KEY", to the entries.
func (j *journal) read(words []string) error {
	switch {
	case len(words) == 2 && words[0] == "begin":
		j.add(words[1])
	case len(words) == 2 && words[0] == "done":
		j.end(words[1])
	default:
		return errors.New("a line of it is damaged")
	}
	return nil
}

func (j *journal) add(key string) {
	if j.entries = append(j.entries, entry{key: key}); len(j.entries) > maxJournal {
		j.entries = slices.Clone(j.entries[len(j.entries)-maxJournal:])
	}
}

func (j *journal) end(key string) {
	for i := range j.entries {
		if j.entries[i].key == key {
			j.entries[i].done = true
		}
	}
}

// rewrite writes the file anew, without lines that are no longer needed.
func (j *journal) rewrite() error {
	err := files.Aside(j.path, "journal.new-*", func(f *os.File) error {
		w := bufio.NewWriter(f)
		for _, e := range j.entries {
			_, _ = w.WriteString("begin " + e.key + "\n") // Flush has the error
			if e.done {
				_, _ = w.WriteString("done " + e.key + "\n")
			}
		}
		return w.Flush()
	}, func(temp string) error { return files.Replace(temp, j.path, "") })
	if err != nil {
		return err
	}
	if j.file != nil {
		_ = j.file.Close() // everything in it is synced
	}
	j.lines = 2 * len(j.entries)
	j.file, err = os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// write adds a line, which the entries contain already, to the file, and syncs the file.
func (j *journal) write(line string) error {
	if j.lines++; j.lines > 4*maxJournal {
		return j.rewrite() // the new file has the line, too
	}
	if _, err := j.file.WriteString(line); err != nil {
		return err
	}
	return j.file.Sync()
}

// begin notes that a program is about to run for a delivery.
func (j *journal) begin(in wire.Inbound) error {
	key := j.name(in)
	j.add(key)
	return j.write("begin " + key + "\n")
}

// finish notes that all is done for a delivery that had begun.
func (j *journal) finish(in wire.Inbound) error {
	key := j.name(in)
	j.end(key)
	return j.write("done " + key + "\n")
}

// state returns what the journal knows of a delivery: whether its program began, and whether it ended.
func (j *journal) state(in wire.Inbound) (began, done bool) {
	key := j.name(in)
	for _, e := range slices.Backward(j.entries) {
		if e.key == key {
			return true, e.done
		}
	}
	return false, false
}

// close closes the journal, and unlocks it for other runners.
func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// name returns the journal's name for a delivery. Without the key, nobody can find out from it which message it is.
func (j *journal) name(in wire.Inbound) string {
	mac := hmac.New(sha256.New, j.key)
	// A hash returns no error.
	_, _ = fmt.Fprintf(mac, "%q", []string{in.Buffer, string(in.Event.Source.Platform), string(in.Event.MessageID)})
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
