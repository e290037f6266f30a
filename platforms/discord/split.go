package discord

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// maxText is how many code points Discord takes in one message.
const maxText = 2000

// split cuts text, in Discord's dialect, into parts of at most limit code points. It cuts where
// people would: between paragraphs, else lines, else words, and code blocks only when it must. A
// code block that is cut ends with its part and begins again with the next; so does a quotation.
// Only blanks are lost, at the cuts and of very wide gaps.
func split(text string, limit int) []string {
	s := newSplitter(text, limit)
	var parts []string
	for start := 0; ; {
		start = s.skip(start)
		if start == len(s.text) {
			return parts
		}
		end := s.cut(start)
		parts = append(parts, s.part(start, end))
		start = end
	}
}

type splitter struct {
	text   []rune
	limit  int
	blocks []fenced
}

// fenced is a code block, in runes: its first fence begins at begin, its code is from from to to,
// and end is behind its last fence.
type fenced struct {
	begin, from, to, end int
	open                 string // the first fence and its line end
	close                string // the last fence with the line end before it
}

// span is a range of runes.
type span struct{ from, to int }

// inline finds what stands within a line and means something only as a whole.
var inline = regexp.MustCompile("\\[[^\\]\n]*\\]\\([^)\n]*\\)|`{3,}[^`\n]+`{3,}|`[^`\n]+`|\\*\\*[^*\n]+\\*\\*|\\*[^*\\s][^*\n]*\\*|" +
	"__[^_\n]+__|~~[^~\n]+~~|\\|\\|[^|\n]+\\|\\||<[^>\\s]{1,100}>")

func newSplitter(text string, limit int) *splitter {
	text, blocks := fences(text)
	s := &splitter{text: []rune(text), limit: limit, blocks: blocks}
	for _, b := range blocks {
		if utf8.RuneCountInString(b.open)+len(b.close)+len(quoteMark) > limit/2 { // no room for code
			s.blocks = nil
			break
		}
	}
	return s
}

// wholes are what should not be torn by a cut from from to to, in order. A long text is looked at part by
// part: all of it may hold a hundred thousand.
func (s *splitter) wholes(from, to int) []span {
	text := string(s.text[from:min(to+s.limit/2, len(s.text))])
	var out []span
	at, runes := 0, from
	for _, m := range inline.FindAllStringIndex(text, -1) {
		begin := runes + utf8.RuneCountInString(text[at:m[0]])
		end := begin + utf8.RuneCountInString(text[m[0]:m[1]])
		if end-begin <= s.limit/2 {
			out = append(out, span{begin, end})
		}
		at, runes = m[1], end
	}
	return out
}

// wide are blanks in a row that would leave no good place for a cut.
var wide = regexp.MustCompile(`[\t\v\f\r\x{85}\pZ]{40,}`)

// fences finds the code blocks of text. whole is text without blanks behind first fences, with a
// gap of two for wide ones outside of code, and with an end if the last block has none.
func fences(text string) (whole string, blocks []fenced) {
	var out strings.Builder
	out.Grow(len(text))
	at := 0
	var b *fenced
	for line := range strings.Lines(text) {
		bare := strings.TrimRightFunc(line, unicode.IsSpace)
		quote := ""
		if strings.HasPrefix(line, quoteMark) {
			quote = quoteMark
		}
		switch {
		case b == nil && opensFence(bare):
			if len(line) != len(bare)+1 {
				line = bare + "\n"
			}
			b = &fenced{begin: at, from: at + len(line), open: line, close: "\n" + quote + "```"}
		case b != nil && bare == b.close[1:]:
			b.to, b.end = at-1, at+len(bare)
			blocks, b = append(blocks, *b), nil
		case b == nil:
			line = wide.ReplaceAllString(line, "  ") // one could be part of a quotation mark
		}
		out.WriteString(line)
		at += utf8.RuneCountInString(line)
	}
	if b != nil {
		out.WriteString(b.close)
		b.to, b.end = at, at+len(b.close)
		blocks = append(blocks, *b)
	}
	return out.String(), blocks
}

// longestFence is how long a line without blanks at its end can be that begins a code block.
const longestFence = len(quoteMark) + len("```") + maxLanguage

// opensFence reports whether a line without blanks at its end begins a code block.
func opensFence(line string) bool {
	info, ok := strings.CutPrefix(strings.TrimPrefix(line, quoteMark), "```")
	return ok && len(info) <= maxLanguage && !strings.ContainsFunc(info, markdown.NotInLanguage)
}

// blockAt is the code block i is inside of, its fences included; nil if there is none.
func (s *splitter) blockAt(i int) *fenced {
	k, _ := slices.BinarySearchFunc(s.blocks, i, func(b fenced, i int) int {
		if b.end <= i {
			return -1
		}
		return 1
	})
	if k < len(s.blocks) && s.blocks[k].begin < i {
		return &s.blocks[k]
	}
	return nil
}

// codeAt is the code block between whose lines, or within one of whose lines, i is.
func (s *splitter) codeAt(i int) *fenced {
	if b := s.blockAt(i); b != nil && b.from < i && i < b.to {
		return b
	}
	return nil
}

// skip is where the part that would begin at start begins: blank lines, and the blank of a cut
// between words, are left out. The indentation of a line stays, and in code everything but the
// line end at the cut.
func (s *splitter) skip(start int) int {
	if b := s.codeAt(start); b != nil {
		if s.text[start] == '\n' {
			start++
		}
		if start < b.to {
			return start
		}
		start = b.end
	}
	begin := start
	for i := start; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\n':
			begin = i + 1
		case unicode.IsSpace(s.text[i]):
		case begin == start && start > 0 || i-begin >= s.limit/2:
			return i
		default:
			return begin
		}
	}
	return len(s.text)
}

// lead is what the part that begins at start needs before its text.
func (s *splitter) lead(start int) string {
	lead := ""
	if b := s.codeAt(start); b != nil {
		lead = b.open
	}
	line := s.lineOf(start)
	if begin := line + len(quoteMark); begin <= start && string(s.text[line:begin]) == quoteMark {
		lead += quoteMark
	}
	return lead
}

// lineOf is where the line of i begins.
func (s *splitter) lineOf(i int) int {
	for i > 0 && s.text[i-1] != '\n' {
		i--
	}
	return i
}

// part is the text from start to end.
func (s *splitter) part(start, end int) string {
	text := s.lead(start) + string(s.text[start:end])
	if b := s.codeAt(end); b != nil {
		return text + b.close
	}
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	for strings.HasSuffix(text, "\n>") { // a blank line of a quotation, now without its blank
		text = strings.TrimRightFunc(strings.TrimSuffix(text, ">"), unicode.IsSpace)
	}
	return text
}

// cut is where the part that begins at start ends.
func (s *splitter) cut(start int) int {
	end := start + s.limit - utf8.RuneCountInString(s.lead(start))
	if end >= len(s.text) {
		return len(s.text)
	}
	// The better the border, the shorter the part that is accepted for its sake.
	paragraph, line, codeLine := -1, -1, -1
	first := start
	for s.codeAt(start) == nil && first < end && unicode.IsSpace(s.text[first]) { // in code, blanks are text
		first++
	}
	for i := first + 1; i <= end; i++ {
		if s.text[i] != '\n' {
			continue
		}
		b, code := s.blockAt(i), s.codeAt(i)
		switch {
		case b != nil && code == nil || code != nil && i+len(code.close) > end: // in a fence, or no room for one
		case code != nil:
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
	}
	if i := max(s.lastWord(start, first, end), line, codeLine); i > start {
		return i
	}
	return s.hard(start, first, end)
}

// lastWord is the last blank behind first, outside of code, where the part that begins at start can
// end; -1 if there is none.
func (s *splitter) lastWord(start, first, end int) int {
	whole := s.wholes(start, end)
	for i := end; i > first; i-- {
		if s.text[i] != '\n' && unicode.IsSpace(s.text[i]) && s.blockAt(i) == nil && !tears(whole, i) && !s.fakesFence(start, i) {
			return i
		}
	}
	return -1
}

// fakesFence reports whether a cut at i, within a line, leaves a piece of that line that alone is a
// fence: at the end of the part that begins at start, or at the beginning of the next one.
func (s *splitter) fakesFence(start, i int) bool {
	next := s.skip(i)
	line := i
	for line > start && s.text[line-1] != '\n' {
		line--
	}
	return s.isFence(line, i) || s.isFence(next, len(s.text))
}

// isFence reports whether the runes from from to the end of the line, or to to, begin a code block.
func (s *splitter) isFence(from, to int) bool {
	end := from
	for i := from; i < to && s.text[i] != '\n'; i++ {
		switch {
		case unicode.IsSpace(s.text[i]):
		case i-from >= longestFence:
			return false
		default:
			end = i + 1
		}
	}
	return opensFence(string(s.text[from:end]))
}

// tears reports whether a cut at i would tear one of whole.
func tears(whole []span, i int) bool {
	k, _ := slices.BinarySearchFunc(whole, i, func(w span, i int) int {
		if w.to <= i {
			return -1
		}
		return 1
	})
	return k < len(whole) && whole[k].from < i
}

// hard cuts a word of more than a whole part: between two characters as people see them, or, if
// there is none for a while, between two code points. What stands from start to first is blank.
func (s *splitter) hard(start, first, end int) int {
	if b := s.blockAt(end); b != nil {
		if end <= b.from && b.begin > first {
			return b.begin
		}
		first = max(first, b.from)
		end = max(min(end-len(b.close), b.to-1), first+1)
	}
	for i := end; i > first && i > end-64; i-- {
		if !joined(s.text, i) && !s.fakesFence(start, i) {
			return i
		}
	}
	return end
}

// joined reports whether the code points before and after i show as one character, by the most
// common of Unicode's rules: marks, joiners, modifiers, flags, Hangul. Where it is in doubt it
// says yes.
func joined(text []rune, i int) bool {
	next, last := text[i], text[i-1]
	const joiner = 0x200D
	jamo := func(c rune) bool {
		return c >= 0x1100 && c <= 0x11FF || c >= 0xA960 && c <= 0xA97F || c >= 0xD7B0 && c <= 0xD7FF
	}
	hangul := func(c rune) bool { return jamo(c) || c >= 0xAC00 && c <= 0xD7A3 }
	flags := 0
	for k := i - 1; k >= 0 && flagLetter(text[k]); k-- {
		flags++
	}
	return last == joiner || next == joiner || unicode.In(next, unicode.M) ||
		next >= 0x1F3FB && next <= 0x1F3FF || next >= 0xE0020 && next <= 0xE007F ||
		flagLetter(next) && flags%2 == 1 || hangul(last) && jamo(next)
}

// flagLetter: two of these letters make one.
func flagLetter(c rune) bool { return c >= 0x1F1E6 && c <= 0x1F1FF }
