package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// version is the version of the file's format.
const version = 1

// slack is how many useless bytes the file may contain, on top of as many as are useful, before it is written anew.
const slack = 1 << 20

// line is one line of the file: a checksum, a space, and this struct as JSON. The members of one line take effect
// together, in their order here.
type line struct {
	Head    *head    `json:"head,omitempty"` // in the first line only
	Chat    *Chat    `json:"chat,omitempty"`
	Event   *Entry   `json:"event,omitempty"`
	Shown   []Cursor `json:"shown,omitempty"`
	Polled  []Cursor `json:"polled,omitempty"`
	Said    *Said    `json:"said,omitempty"`
	Confirm []Cursor `json:"confirm,omitempty"`
	Begin   *keyLine `json:"begin,omitempty"`
	End     *keyLine `json:"end,omitempty"`
	Free    string   `json:"free,omitempty"` // a key that may be used again
}

// head is the first line of the file.
type head struct {
	Version int             `json:"v"`
	Gateway relay.GatewayID `json:"gateway"`
	Birth   Cursor          `json:"birth"`
	Next    Cursor          `json:"next"`
	Highest Cursor          `json:"highest,omitempty"` // the highest cursor that a client got
	Seen    []string        `json:"seen,omitempty"`    // digests of deliveries, oldest first
}

// keyLine says that a message is being sent under a key (Begin: digest and time), or how that ended (End: outcome).
type keyLine struct {
	Key     string    `json:"k"`
	Digest  string    `json:"d,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Outcome *Outcome  `json:"out,omitempty"`
}

var errDamaged = errors.New("it is damaged: look at it, then remove it; what waits in it is lost then")

// encode returns a line as it is written into the file.
func encode(l line) ([]byte, error) {
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("a line of the spool: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(raw), raw), nil
}

// decode reads a line, without its end.
func decode(raw []byte) (l line, ok bool) {
	sum, text, ok := bytes.Cut(raw, []byte(" "))
	if !ok || len(sum) != 8 {
		return l, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.ChecksumIEEE(text) || json.Unmarshal(text, &l) != nil {
		return line{}, false
	}
	return l, true
}

// load reads the file at path. whole is the length of its complete lines, in bytes: what follows is a line that was not
// written to its end, and is to be cut off.
func (m *memory) load(path string, now time.Time) (whole int64, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return m.read(raw, now)
}

// read applies the lines of a file.
func (m *memory) read(raw []byte, now time.Time) (whole int64, err error) {
	var torn bool // there was a line that cannot be read
	for rest := raw; len(rest) > 0; {
		text, behind, ended := bytes.Cut(rest, []byte("\n"))
		size := len(rest) - len(behind)
		rest = behind
		l, ok := decode(text)
		if !ok || !ended {
			torn = true // the incomplete end of the file or, if a good line follows, damage
			continue
		}
		if torn || (l.Head != nil) != (whole == 0) {
			return 0, errDamaged
		}
		if l.Head != nil && l.Head.Version != version {
			return 0, fmt.Errorf("it was made by another version of this program (%d)", l.Head.Version)
		}
		if !m.fits(l) {
			return 0, errDamaged
		}
		m.apply(l, int64(size))
		whole += int64(size)
	}
	if whole == 0 {
		return 0, errDamaged
	}
	m.expire(now)
	return whole, nil
}

// write adds a line to the file, syncs the file if sync is set, and applies the line. s.mu is held.
func (s *Spool) write(l line, sync bool) error {
	raw, err := encode(l)
	if err != nil {
		return err
	}
	if s.broken != nil || s.size > 2*s.needed()+slack {
		if err := s.rewrite(); err != nil {
			return err
		}
	}
	_, err = s.file.WriteAt(raw, s.size)
	if err == nil && sync {
		err = s.file.Sync()
	}
	if err != nil {
		s.broken = fmt.Errorf("the spool cannot be written: %w", err)
		return s.broken
	}
	s.size += int64(len(raw))
	s.apply(l, int64(len(raw)))
	s.drop()
	return nil
}

// rewrite writes the file anew, without what is no longer needed. s.mu is held.
func (s *Spool) rewrite() (err error) {
	if s.closed {
		return os.ErrClosed // another process may use the file by now
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the spool cannot be written: %w", err)
		}
		s.broken = err
	}()
	s.expire(s.o.Now())
	s.drop()
	size := int64(0)
	err = files.Aside(s.path(), leftovers, func(f *os.File) error {
		for l := range s.lines() {
			raw, err := encode(l)
			if err != nil {
				return err
			}
			if _, err := io.Copy(f, bytes.NewReader(raw)); err != nil {
				return err
			}
			size += int64(len(raw))
		}
		return nil
	}, func(temp string) error { return files.Replace(temp, s.path(), "") })
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // the new file has taken its name
	}
	if s.file, err = os.OpenFile(s.path(), os.O_RDWR, 0o600); err != nil {
		return err
	}
	s.size, s.stale = size, false
	return nil
}

// drop removes the useless files. If it cannot remove a file, the next start does.
func (s *Spool) drop() {
	for _, name := range s.useless {
		_ = os.Remove(s.FilePath(name))
	}
	s.useless = nil
}
