package wire

import "bytes"

// Splitter cuts a stream of WebSocket messages into lines. The zero value is ready. It holds
// at most one unfinished line, which is never longer than MaxFrame. Not safe for concurrent use.
type Splitter struct {
	tail  []byte // the unfinished line
	depth braces // the objects and lists that tail leaves open
}

// Feed takes the next message and returns the lines it completes, without newlines and without blank ones. A
// frame may span several messages, and an object that closes at a message's end is complete without its newline.
// Lines may share memory with message, which belongs to them from now on. After an error, ErrTooLarge or
// ErrTooMany, the stream cannot be followed any further.
func (s *Splitter) Feed(message []byte) ([][]byte, error) {
	var lines [][]byte
	whole := len(s.tail) == 0 // nothing came before part, which may then be kept without a copy
	for {
		part, rest, found := bytes.Cut(message, []byte("\n"))
		if len(s.tail)+len(part) > MaxFrame {
			*s = Splitter{}
			return nil, ErrTooLarge
		}
		if !found {
			s.depth.read(part)
			if whole && cap(part)-len(part) < len(part)/8 {
				s.tail = part
			} else {
				s.tail = append(s.tail, part...)
			}
			if s.depth.closed {
				lines = s.finish(lines, s.tail)
			}
			return lines, nil
		}
		if len(s.tail) > 0 {
			part = append(s.tail, part...)
		}
		lines, message, whole = s.finish(lines, part), rest, false
		if len(lines) > MaxLines {
			*s = Splitter{}
			return nil, ErrTooMany
		}
	}
}

// Held returns how many bytes of an unfinished frame the splitter keeps.
func (s *Splitter) Held() int { return len(s.tail) }

// finish adds line unless it is blank, and begins the next one.
func (s *Splitter) finish(lines [][]byte, line []byte) [][]byte {
	*s = Splitter{}
	if line = bytes.Trim(line, blanks); len(line) > 0 {
		lines = append(lines, line[:len(line):len(line)])
	}
	return lines
}

// braces follows a JSON object byte by byte, so that a line that grows by many small messages
// costs one look at each byte. It counts; it does not judge: a decoder does.
type braces struct {
	quotes quotes
	open   int
	closed bool // an object was opened and closed, and only blanks followed
}

func (b *braces) read(part []byte) {
	for _, c := range part {
		switch {
		case b.quotes.holds(c):
			b.closed = false
		case c == '{':
			b.open++
			b.closed = false
		case c == '}':
			b.open--
			b.closed = b.open == 0
		case bytes.IndexByte([]byte(blanks), c) < 0:
			b.closed = false
		}
	}
}
