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
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// maxJournal is how many deliveries the journal knows.
const maxJournal = 1000

// journal says of the last deliveries whether a program began for them and whether that came to its end. It is one file, with a
// line for each of both, and the line is on disk before what it says is acted upon. Nothing of what people wrote is in it.
type journal struct {
	path    string
	key     []byte   // of its digests
	lock    *os.File // held
	file    *os.File
	lines   int
	entries []entry // oldest first
}

// entry is what the journal knows of a delivery.
type entry struct {
	key  string // the buffer id, and a digest of which message that was: ids may begin anew when a backup is restored
	size int    // of the text, in bytes
	text string // a digest of who said what, and where
	done bool
}

// errHeld says that another runner has the journal.
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

// load reads the file, and writes it anew.
func (j *journal) load() error {
	raw, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := files.RemoveLeftovers(filepath.Dir(j.path), "journal.new-*"); err != nil {
		return err
	}
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1] // what is behind it was never acted upon
	for line := range strings.Lines(string(whole)) {
		if err := j.read(strings.Fields(line)); err != nil {
			return fmt.Errorf("%s: %w: look at it, then remove it; what it knew of may run once more", j.path, err)
		}
	}
	return j.rewrite()
}

// read takes over one line: "begin KEY SIZE TEXT" or "done KEY".
func (j *journal) read(words []string) error {
	switch {
	case len(words) == 4 && words[0] == "begin":
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return errors.New("a line of it is damaged")
		}
		j.add(entry{key: words[1], size: size, text: words[3]})
	case len(words) == 2 && words[0] == "done":
		j.end(words[1])
	default:
		return errors.New("a line of it is damaged")
	}
	return nil
}

func (j *journal) add(e entry) {
	if j.entries = append(j.entries, e); len(j.entries) > maxJournal {
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

// line is an entry as it is written.
func (e entry) line() string { return fmt.Sprintf("begin %s %d %s\n", e.key, e.size, e.text) }

// rewrite writes the file anew, with what is known and no more.
func (j *journal) rewrite() error {
	err := files.Aside(j.path, "journal.new-*", func(f *os.File) error {
		w := bufio.NewWriter(f)
		for _, e := range j.entries {
			_, _ = w.WriteString(e.line()) // Flush has the error
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
		_ = j.file.Close() // all of it was synced
	}
	j.lines = 2 * len(j.entries)
	j.file, err = os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// write adds a line to the file, and syncs it.
func (j *journal) write(line string) error {
	if j.lines++; j.lines > 4*maxJournal {
		return j.rewrite() // it has what the line says
	}
	if _, err := j.file.WriteString(line); err != nil {
		return err
	}
	return j.file.Sync()
}

// begin notes that a program is about to run for a delivery.
func (j *journal) begin(in wire.Inbound) error {
	e := entry{key: j.name(in), size: len(in.Event.Text), text: j.words(in, len(in.Event.Text))}
	j.add(e)
	return j.write(e.line())
}

// finish notes that all is done for a delivery, which need not have begun.
func (j *journal) finish(in wire.Inbound) error {
	key := j.name(in)
	if _, known := j.find(key); !known {
		return nil
	}
	j.end(key)
	return j.write("done " + key + "\n")
}

func (j *journal) find(key string) (entry, bool) {
	for _, e := range slices.Backward(j.entries) {
		if e.key == key {
			return e, true
		}
	}
	return entry{}, false
}

// state says what the journal knows of a delivery: whether its program began, and whether that came to its end. What people
// say in a row may come as one message, so a delivery has also begun when it begins with one that had.
func (j *journal) state(in wire.Inbound) (began, done bool) {
	if e, known := j.find(j.name(in)); known {
		return true, e.done
	}
	for _, e := range j.entries {
		if !e.done && e.size < len(in.Event.Text) && in.Event.Text[e.size] == '\n' && j.words(in, e.size) == e.text {
			return true, false
		}
	}
	return false, false
}

// settle notes that a delivery needs nothing more, with all that it may have been joined of.
func (j *journal) settle(in wire.Inbound) error {
	for _, e := range j.entries {
		if !e.done && e.size < len(in.Event.Text) && j.words(in, e.size) == e.text {
			j.end(e.key)
			if err := j.write("done " + e.key + "\n"); err != nil {
				return err
			}
		}
	}
	if _, known := j.find(j.name(in)); !known {
		if err := j.begin(in); err != nil {
			return err
		}
	}
	return j.finish(in)
}

// close lets another runner have the journal.
func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// name is how the journal calls a delivery.
func (j *journal) name(in wire.Inbound) string {
	s := in.Event.Source
	return j.digest(in.Buffer, string(s.Platform), string(in.Event.MessageID))
}

// words stand for who said the first n bytes of a delivery's text, and where.
func (j *journal) words(in wire.Inbound, n int) string {
	s := in.Event.Source
	return j.digest(string(s.Platform), string(s.ChatID), string(s.ThreadID), string(s.UserID), in.Event.Text[:n])
}

// digest stands for values, which nobody can guess from it.
func (j *journal) digest(values ...string) string {
	mac := hmac.New(sha256.New, j.key)
	_, _ = fmt.Fprintf(mac, "%q", values) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
