package markdown

import (
	"bytes"
	"cmp"

	"github.com/yuin/goldmark/util"
)

const (
	// MaxSource is the most, in bytes, that is parsed at once: the parser takes quadratic time on hostile text.
	MaxSource = 64 << 10
	// MaxNesting is how deep lists and quotations may nest in one line. People stop at five; beyond this the parser
	// takes quadratic time.
	MaxNesting = 100
	// MaxMarkup bounds the lines, marks and cells that are parsed at once; each takes up to 800 bytes of memory. A
	// dense text of 40 KB stays below this bound. Every row of a table gets as many cells as its head, so that a few KB
	// of text could mean millions of cells.
	MaxMarkup = 4 << 10
)

// Bounds say how much of a text is parsed at once. A field that is 0 stands for MaxSource or MaxMarkup.
type Bounds struct {
	Source int // bytes
	Markup int // lines, marks and cells
}

// reach returns the end of the longest stretch of whole lines of src, from start on, that is within b; start itself if
// the first line alone exceeds b.
func (b Bounds) reach(src []byte, start int) int {
	var w weigher
	end := start
	for end < len(src) {
		line := lineAt(src, end)
		w.add(line)
		if end+len(bytes.TrimSuffix(line, newline))-start > cmp.Or(b.Source, MaxSource) ||
			w.weight > cmp.Or(b.Markup, MaxMarkup) || markers(line) > MaxNesting {
			break
		}
		end += len(line)
	}
	return end
}

// weigher adds up the lines, marks and cells that the parser may find, line by line, and misses few.
type weigher struct {
	weight int // lines, marks and cells so far
	width  int // of each row in cells, if the lines before may have begun a table; else 0
}

// add adds line to the weight: itself, its markers, its marks and its cells.
func (w *weigher) add(line []byte) {
	w.weight += 1 + markers(line)
	pipes := 0
	for _, c := range line {
		switch c {
		case '|':
			pipes++
		case '*', '_', '~', '[', ']', '<', '>', '`':
			w.weight++
		}
	}
	w.weight += max(pipes, w.width)
	switch {
	case util.IsBlank(line):
		w.width = 0
	case pipes > 0 && len(bytes.Trim(line, ">|:- \t\v\f\n")) == 0: // the line beneath a table's head
		w.width = max(w.width, pipes+1)
	}
}

// markers counts the characters at the beginning of line that may be markers of quotations and list items.
func markers(line []byte) int {
	n := 0
	for _, c := range line {
		if bytes.IndexByte([]byte(" \t>-+*0123456789.)"), c) < 0 {
			break
		}
		if bytes.IndexByte([]byte(">-+*.)"), c) >= 0 {
			n++
		}
	}
	return n
}

var newline = []byte("\n")

// lineAt returns the line of src that begins at byte at, with its end.
func lineAt(src []byte, at int) []byte {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return src[at : at+i+1]
	}
	return src[at:]
}

// lineOf returns the beginning of the line that contains byte at of src.
func lineOf(src []byte, at int) int { return bytes.LastIndexByte(src[:at], '\n') + 1 }
