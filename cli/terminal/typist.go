//go:build unix

package terminal

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Typist is a person at a terminal. This package edits the lines that they type, in place of the terminal. So text that
// must not be seen is never shown, not even for a moment, and never gets into the terminal's scrollback.
type Typist struct {
	lines chan string
	set   func(edited bool) // true: the terminal edits and shows lines itself; false: editor does

	editor
}

// Sit makes a Typist of a terminal, at which nothing typed is shown until Show. A read from a terminal cannot be
// interrupted, so nobody can wait for the goroutine: it ends with the input.
func Sit(in, out *os.File) (*Typist, error) {
	fd := int(in.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	ours := *before
	ours.Lflag &^= unix.ECHO | unix.ICANON // not ISIG: Ctrl-C stays a signal
	ours.Cc[unix.VMIN], ours.Cc[unix.VTIME] = 1, 0
	t := &Typist{lines: make(chan string), editor: editor{out: out, may: nothing}, set: func(edited bool) {
		to := ours
		if edited {
			to = *before
		}
		_ = unix.IoctlSetTermios(fd, setTermios, &to) // a terminal that went away shows nothing any more
	}}
	t.set(false)
	go func() {
		defer close(t.lines)
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			lines, end := t.typed(buf[:n])
			for _, line := range lines {
				t.lines <- line
			}
			if end || err != nil {
				return
			}
		}
	}()
	return t, nil
}

// Lines returns the typed lines. The channel is closed at the end of the input.
func (t *Typist) Lines() <-chan string { return t.lines }

// Show shows typed text from now on while may accepts the whole line, beginning with the text that is there already.
// Nil: there are no more questions, and the terminal returns to its former state.
func (t *Typist) Show(may func(line string) bool) {
	t.set(may == nil)
	if may == nil {
		may = nothing
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.may = may
	t.reveal()
}

func nothing(string) bool { return false }

// editor makes lines of the keys typed at a terminal.
type editor struct {
	mu     sync.Mutex // guards the fields below
	out    io.Writer
	may    func(line string) bool // reports whether a line may be seen
	line   []byte                 // what is typed of the line so far
	shown  int                    // bytes of the line that are shown
	escape byte                   // within an escape sequence, such as an arrow key's: ESC, or the [ or O after ESC; 0: outside
}

// typed adds typed or pasted keys to the line, and returns the lines that they complete. Keys that arrive together are
// shown only if the whole line that they make may be seen. end: the keys end the input (Ctrl-D).
func (e *editor) typed(keys []byte) (lines []string, end bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range keys {
		switch {
		case e.sequence(b):
		case b == '\n' || b == '\r':
			e.reveal()
			lines = append(lines, string(e.line))
			e.line, e.shown = e.line[:0], 0
		case b == 0x04: // Ctrl-D
			if len(e.line) == 0 {
				return lines, true
			}
		case b == 0x7f || b == '\b':
			e.erase()
		case b == 0x15: // Ctrl-U
			for len(e.line) > 0 {
				e.erase()
			}
		case b >= ' ' || b == '\t':
			e.line = append(e.line, b)
		}
	}
	e.reveal()
	return lines, false
}

// sequence reports whether b belongs to an escape sequence.
func (e *editor) sequence(b byte) bool {
	switch {
	case b == 0x1b:
		e.escape = b
	case e.escape == 0x1b && (b == '[' || b == 'O'):
		e.escape = b
	case e.escape == 0x1b, e.escape != 0 && b >= '@' && b <= '~':
		e.escape = 0
	default:
		return e.escape != 0
	}
	return true
}

// reveal shows the new characters of a line that may be seen, whole characters only.
func (e *editor) reveal() {
	if utf8.Valid(e.line) && e.may(string(e.line)) {
		_, _ = e.out.Write(e.line[e.shown:]) // a terminal that went away shows nothing any more
		e.shown = len(e.line)
	}
}

// erase removes the last character from the line and from the screen.
func (e *editor) erase() {
	_, size := utf8.DecodeLastRune(e.line)
	e.line = e.line[:len(e.line)-size]
	if e.shown > len(e.line) {
		e.shown = len(e.line)
		_, _ = io.WriteString(e.out, "\b \b")
	}
}

// Prefix returns a function that accepts a line if one of words begins with it. Capital and small letters are the same.
func Prefix(words ...string) func(line string) bool {
	return func(line string) bool {
		for _, w := range words {
			if len(line) <= len(w) && strings.EqualFold(w[:len(line)], line) {
				return true
			}
		}
		return false
	}
}
