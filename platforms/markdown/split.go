package markdown

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Unit is the unit in which a network counts the length of a message: UTF-16 units or characters.
type Unit interface{ uint16 | rune }

// CodeBlock is a code block of a text: its first fence begins at Begin, its code goes from From to To, and its last
// fence ends at End. These positions are in units of the text.
type CodeBlock struct {
	Begin, From, To, End int
	// Open and Close are the fences that a part of a cut block gets, with the line end between fence and code. They are
	// empty if a network marks code by a format: such text is cut like any other.
	Open, Close string
}

// Cuts knows where a text of a dialect may be cut.
type Cuts interface {
	// Reach returns the end of the longest part that begins at start. It may be beyond the text.
	Reach(start int) int
	// Words returns a function for the blanks within lines from start to end. The function reports whether the part
	// that begins at start can end at the blank i.
	Words(start, end int) func(i int) bool
	// Letters reports whether the part that begins at start can end at i, in a word that has to be cut.
	Letters(start, i int) bool
}

// Splitter cuts a text where people would: between paragraphs, else lines, else words, and code blocks only when it
// must. It implements Cuts itself; a dialect embeds it, and overrides the methods for which it has rules of its own.
type Splitter[U Unit] struct {
	Text   []U
	Limit  int // of a part, in units
	Blocks []CodeBlock
	Decode func([]U) string
	Length func(string) int // in units
}

// Runes makes the splitter of a network that counts characters.
func Runes(text string, limit int) Splitter[rune] {
	return Splitter[rune]{Text: []rune(text), Limit: limit, Decode: func(r []rune) string { return string(r) }, Length: utf8.RuneCountInString}
}

// Reach implements Cuts: a part has at most Limit units, including the fence with which it begins.
func (s *Splitter[U]) Reach(start int) int { return start + s.Limit - s.Length(s.Open(start)) }

// Words implements Cuts: any blank will do.
func (s *Splitter[U]) Words(int, int) func(int) bool { return func(int) bool { return true } }

// Letters implements Cuts: any place will do.
func (s *Splitter[U]) Letters(int, int) bool { return true }

// Parts returns the beginnings and ends of the parts of the text. Between parts only blanks are left out.
func (s *Splitter[U]) Parts(c Cuts) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for start := s.Skip(0); start < len(s.Text); {
			end := s.cut(start, c)
			if !yield(start, end) {
				return
			}
			start = s.Skip(end)
		}
	}
}

// Open returns the fence that a part needs if it begins at start; empty: none.
func (s *Splitter[U]) Open(start int) string {
	if b := s.CodeAt(start); b != nil {
		return b.Open
	}
	return ""
}

// Part returns the part from start to end. Where a cut lies within a code block, it adds the block's fence. Otherwise
// it leaves out the blanks at the end.
func (s *Splitter[U]) Part(start, end int) string {
	part := s.Open(start) + s.Decode(s.Text[start:end])
	if b := s.CodeAt(end); b != nil {
		return part + b.Close
	}
	return strings.TrimRightFunc(part, unicode.IsSpace)
}

// blockAt returns the code block around i, including its fences; nil if there is none.
func (s *Splitter[U]) blockAt(i int) *CodeBlock {
	k, _ := slices.BinarySearchFunc(s.Blocks, i, func(b CodeBlock, i int) int {
		if b.End <= i {
			return -1
		}
		return 1
	})
	if k < len(s.Blocks) && s.Blocks[k].Begin < i {
		return &s.Blocks[k]
	}
	return nil
}

// fenced returns the code block around i, including its fences; nil if there is none, or it has no fences.
func (s *Splitter[U]) fenced(i int) *CodeBlock {
	if b := s.blockAt(i); b != nil && b.Close != "" {
		return b
	}
	return nil
}

// CodeAt returns the fenced code block in whose code i lies, but not at its ends; nil if there is none.
func (s *Splitter[U]) CodeAt(i int) *CodeBlock {
	if b := s.fenced(i); b != nil && b.From < i && i < b.To {
		return b
	}
	return nil
}

// Skip returns where a part begins that could begin at start. It skips blank lines, and the blank of a cut between
// words. A line keeps its indentation, unless the indentation takes half a part. Between fences Skip skips only the
// line end at the cut.
func (s *Splitter[U]) Skip(start int) int {
	if b := s.CodeAt(start); b != nil {
		if s.Text[start] == '\n' {
			start++
		}
		if start < b.To {
			return start
		}
		start = b.End
	}
	begin := start
	for i := start; i < len(s.Text); i++ {
		switch {
		case s.Text[i] == '\n':
			begin = i + 1
		case IsSpace(s.Text[i]):
		case begin == start && start > 0 || i-begin >= s.Limit/2:
			return i
		default:
			return begin
		}
	}
	return len(s.Text)
}

// cut returns the end of the part that begins at start: the last end of a paragraph, of a line or of a line of code, if
// the part does not become too short by that; else the last end of a word; else a place in a word.
func (s *Splitter[U]) cut(start int, c Cuts) int {
	end := c.Reach(start)
	if end >= len(s.Text) {
		return len(s.Text)
	}
	// The better the border, the shorter the part that is accepted for its sake.
	paragraph, line, codeLine := -1, -1, -1
	first := start
	for s.CodeAt(start) == nil && first < end && IsSpace(s.Text[first]) { // between fences, blanks are text
		first++
	}
	for i := first + 1; i <= end; i++ {
		if s.Text[i] != '\n' {
			continue
		}
		switch b := s.blockAt(i); {
		case b == nil && i+1 < len(s.Text) && s.Text[i+1] == '\n':
			paragraph, line = i, i
		case b == nil:
			line = i
		case b.From < i && i < b.To && i+len(b.Close) <= end: // in the code, with room for the closing fence
			codeLine = i
		}
	}
	half, quarter := start+(end-start)/2, start+(end-start)/4
	switch {
	case paragraph >= half:
		return paragraph
	case line >= half:
		return line
	case codeLine >= half:
		return codeLine
	case max(line, codeLine) >= quarter:
		return max(line, codeLine)
	}
	if i := max(s.lastWord(start, first, end, c), line, codeLine); i > start {
		return i
	}
	return s.hard(start, first, end, c)
}

// lastWord returns the last blank behind first, outside of fences, at which the part that begins at start can end; -1
// if there is none.
func (s *Splitter[U]) lastWord(start, first, end int, c Cuts) int {
	ends := c.Words(start, end)
	for i := end; i > first; i-- {
		if s.Text[i] != '\n' && IsSpace(s.Text[i]) && s.fenced(i) == nil && ends(i) {
			return i
		}
	}
	return -1
}

// Wholes are places that a cut should not tear, in order.
type Wholes []span

// span is a range of units.
type span struct{ from, to int }

// Wholes returns the matches of inline in the part from one position to another: a cut should not tear them. It
// searches only that part and half a part behind it, because a text may have a hundred thousand matches. A match that
// is longer than half a part is left out: it has to be torn.
func (s *Splitter[U]) Wholes(inline *regexp.Regexp, from, to int) Wholes {
	text := s.Decode(s.Text[from:min(to+s.Limit/2, len(s.Text))])
	var out Wholes
	at, units := 0, from
	for _, m := range inline.FindAllStringIndex(text, -1) {
		begin := units + s.Length(text[at:m[0]])
		end := begin + s.Length(text[m[0]:m[1]])
		if end-begin <= s.Limit/2 {
			out = append(out, span{begin, end})
		}
		at, units = m[1], end
	}
	return out
}

// Torn reports whether a cut at i would tear one of the stretches in w.
func (w Wholes) Torn(i int) bool {
	k, _ := slices.BinarySearchFunc(w, i, func(w span, i int) int {
		if w.to <= i {
			return -1
		}
		return 1
	})
	return k < len(w) && w[k].from < i
}

// maxLetter is the longest character as people see it, in units, that is kept whole.
const maxLetter = 64

// hard cuts a word that is longer than a part: between two characters as people see them or, if the last maxLetter
// units have no such place, between two code points. Everything from start to first is blank.
func (s *Splitter[U]) hard(start, first, end int, c Cuts) int {
	if b := s.fenced(end); b != nil {
		if end <= b.From && b.Begin > first {
			return b.Begin
		}
		first = max(first, b.From)
		end = max(min(end-len(b.Close), b.To-1), first+1)
	}
	best, at := 0, s.border(first, end)
	// Whether a place is a border depends on the text behind it, too.
	rest, state := s.Decode(s.Text[at:min(end+2, len(s.Text))]), -1
	for at < end && rest != "" {
		var letter string
		letter, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at += s.Length(letter)
		if end-maxLetter < at && at <= end && c.Letters(start, at) {
			best = at
		}
	}
	switch {
	case best > 0:
		return best
	case end > first+1 && s.Text[end-1] >= 0xD800 && s.Text[end-1] < 0xDC00: // half of a character in UTF-16
		return end - 1
	}
	return end
}

// border returns a place between two characters, as people see them, that is a border whatever the text before it is;
// first if there is none. It searches from 4*maxLetter to maxLetter units before end. From this place on hard looks for
// the last border.
func (s *Splitter[U]) border(first, end int) int {
	at := end - 4*maxLetter
	if at <= first {
		return first
	}
	letters := []rune(s.Decode(s.Text[at : end-maxLetter]))
	for i := range letters {
		if at += s.Length(string(letters[i])); i == 0 || i+1 == len(letters) { // this code point may be half of one
			continue
		}
		a, b := letters[i], letters[i+1]
		if unicode.In(a, unicode.M, unicode.C, unicode.Regional_Indicator) || unicode.Is(unicode.Regional_Indicator, b) {
			continue // the characters before these decide, too
		}
		if uniseg.GraphemeClusterCount(string([]rune{a, b})) == 2 {
			return at
		}
	}
	return first
}

// IsSpace reports whether a unit is a blank or ends a line. Most units are letters, which the comparisons exclude at
// little cost: U+3000 is the last blank.
func IsSpace[U Unit](unit U) bool {
	return (unit <= ' ' || unit > '~' && unit <= 0x3000) && unicode.IsSpace(rune(unit))
}
