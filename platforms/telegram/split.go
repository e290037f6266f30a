package telegram

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf16"
)

// Telegram's limits for one message: its length after formatting, in UTF-16 units, and how many
// entities it keeps; it drops the ones beyond without a word.
const (
	maxText     = 4096
	maxEntities = 100
)

// part is one message of a long text.
type part struct {
	text     string
	entities []style
	at       int // where it begins in the whole, in UTF-16 units
}

// split cuts r into parts that Telegram takes, of at most limit UTF-16 units and maxEntities
// entities each. It cuts where people would: between paragraphs, else lines, else words, and
// code blocks only when it must. A format that is cut ends with its part and begins again with
// the next. Only blanks at the cuts are lost.
func split(r rich, limit int) []part {
	s := splitter{text: encode16(r.text), entities: r.entities}
	for _, e := range r.entities {
		if e.Type == entityPre {
			s.pres = append(s.pres, e)
		}
	}
	var parts []part
	for start := 0; ; {
		start = s.skip(start, limit)
		if start == len(s.text) {
			return parts
		}
		end := s.cut(start, limit)
		parts = append(parts, s.part(start, end))
		start = end
	}
}

type splitter struct {
	text     []uint16
	entities []style
	pres     []style // the code blocks among them, in order
}

// skip is where the part that would begin at start begins: blank lines, and the blank of a cut
// between words, are left out. The indentation of a line stays, if it leaves room for the line.
func (s *splitter) skip(start, limit int) int {
	begin := start
	for i := start; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\n':
			begin = i + 1
		case isSpace(s.text[i]):
		case begin == start && start > 0 || i-begin >= limit/2:
			return i
		default:
			return begin
		}
	}
	return len(s.text)
}

// part is the text from start to end with the formats over it.
func (s *splitter) part(start, end int) part {
	for end > start && isSpace(s.text[end-1]) {
		end--
	}
	var over []style
	for _, e := range s.entities {
		from, to := max(e.Offset, start), min(e.end(), end)
		if from < to {
			e.Offset, e.Length = from-start, to-from
			over = append(over, e)
		}
	}
	text := s.text[start:end]
	return part{text: decode16(text), entities: tidy(text, over), at: start}
}

// cut is where the part that begins at start ends.
func (s *splitter) cut(start, limit int) int {
	end := min(start+limit, s.full(start))
	if end >= len(s.text) {
		return len(s.text)
	}
	// The better the border, the shorter the part that is accepted for its sake.
	paragraph, line, codeLine, word := -1, -1, -1, -1
	first := start
	for first < end && isSpace(s.text[first]) {
		first++
	}
	for i := first + 1; i <= end; i++ {
		if !isSpace(s.text[i]) {
			continue
		}
		switch inPre := s.inPre(i); {
		case s.text[i] != '\n':
			word = i
		case inPre:
			codeLine = i
		case i+1 < len(s.text) && s.text[i+1] == '\n':
			paragraph, line = i, i
		default:
			line = i
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
	case word > start:
		return max(word, line, codeLine)
	case max(line, codeLine) > start:
		return max(line, codeLine)
	}
	return s.hard(first, end)
}

// full is where a part from start would get one entity too many.
func (s *splitter) full(start int) int {
	n := 0
	for _, e := range s.entities {
		if e.end() <= start {
			continue
		}
		if n++; n > maxEntities {
			return max(e.Offset, start+1)
		}
	}
	return len(s.text)
}

func (s *splitter) inPre(i int) bool {
	k, _ := slices.BinarySearchFunc(s.pres, i+1, func(e style, behind int) int { return cmp.Compare(e.end(), behind) })
	return k < len(s.pres) && s.pres[k].Offset <= i
}

// hard cuts a word of more than a whole part: between two characters as people see them, or, if
// there is none for a while, between two code points. What stands before first is blank.
func (s *splitter) hard(first, end int) int {
	for i := end; i > first && i > end-64; i-- {
		if !s.joined(i) {
			return i
		}
	}
	if end > first+1 && utf16.IsSurrogate(rune(s.text[end-1])) && s.text[end-1] < 0xDC00 {
		return end - 1
	}
	return end
}

// joined reports whether the code points before and after i show as one character, by the most
// common of Unicode's rules: marks, joiners, modifiers, flags, Hangul. Where it is in doubt it
// says yes.
func (s *splitter) joined(i int) bool {
	if s.text[i] >= 0xDC00 && s.text[i] < 0xE000 {
		return true
	}
	next, last := s.runeAt(i), rune(s.text[i-1])
	if i > 1 && utf16.IsSurrogate(last) {
		last = s.runeAt(i - 2)
	}
	const joiner = 0x200D
	jamo := func(c rune) bool {
		return c >= 0x1100 && c <= 0x11FF || c >= 0xA960 && c <= 0xA97F || c >= 0xD7B0 && c <= 0xD7FF
	}
	hangul := func(c rune) bool { return jamo(c) || c >= 0xAC00 && c <= 0xD7A3 }
	return last == joiner || next == joiner || unicode.In(next, unicode.M) ||
		next >= 0x1F3FB && next <= 0x1F3FF || next >= 0xE0020 && next <= 0xE007F ||
		flagLetter(last) && flagLetter(next) && s.flagsBefore(i)%2 == 1 || hangul(last) && jamo(next)
}

// flagLetter: two of these letters make one.
func flagLetter(c rune) bool { return c >= 0x1F1E6 && c <= 0x1F1FF }

// flagsBefore is how many flag letters stand in a row before i.
func (s *splitter) flagsBefore(i int) int {
	n := 0
	for ; i > 1 && flagLetter(s.runeAt(i-2)); i -= 2 {
		n++
	}
	return n
}

func (s *splitter) runeAt(i int) rune {
	if i+1 < len(s.text) && utf16.IsSurrogate(rune(s.text[i])) {
		return utf16.DecodeRune(rune(s.text[i]), rune(s.text[i+1]))
	}
	return rune(s.text[i])
}
