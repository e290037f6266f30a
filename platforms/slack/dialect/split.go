package dialect

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// Split cuts mrkdwn from Render into parts of at most limit characters. If a cut falls into a code block or a
// quotation, it is closed at the end of the part and opened again in the next. Only blanks are lost, at the cuts.
func Split(text string, limit int) []string {
	s := splitter{markdown.Runes(text, limit)}
	s.Blocks = codeBlocks(text)
	var parts []string
	for start, end := range s.Parts(&s) {
		if part := s.quote(start) + s.Part(start, end); strings.Trim(part, joint+" \n") != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// splitter is the markdown.Cuts of one text.
type splitter struct{ markdown.Splitter[rune] }

// codeBlocks finds the code blocks of text. A line that is a fence was always written by Render.
func codeBlocks(text string) (blocks []markdown.CodeBlock) {
	at, open := 0, -1
	for line := range strings.SplitSeq(text, "\n") {
		size := utf8.RuneCountInString(line)
		switch {
		case line != fence:
		case open < 0:
			open = at
		default:
			blocks = append(blocks, markdown.CodeBlock{
				Begin: open, From: open + len(fence) + 1, To: at - 1, End: at + size, Open: fence + "\n", Close: "\n" + fence,
			})
			open = -1
		}
		at += size + 1
	}
	return blocks
}

// quote returns the mark of quotation that a part needs if it begins at start, within a quoted line; empty: none.
func (s *splitter) quote(start int) string {
	if s.CodeAt(start) != nil {
		return ""
	}
	line := start
	for line > 0 && s.Text[line-1] != '\n' {
		line--
	}
	if begin := line + len(quoteMark); begin <= start && string(s.Text[line:begin]) == quoteMark {
		return quoteMark
	}
	return ""
}

// Reach implements markdown.Cuts: the mark of quotation before a part counts against the limit.
func (s *splitter) Reach(start int) int { return s.Splitter.Reach(start) - len(s.quote(start)) }

// inline finds stretches that must not be cut: links and entities first, then formats.
var inline = regexp.MustCompile("<[^>\n]*>|&[a-z]+;|`[^`\n]+`|\\*[^*\n]+\\*|_[^_\n]+_|~[^~\n]+~")

// Words implements markdown.Cuts.
func (s *splitter) Words(start, end int) func(int) bool {
	whole := s.Wholes(inline, start, end)
	return func(i int) bool { return !whole.Torn(i) }
}

// Letters implements markdown.Cuts: an entity stays whole, and a link does, too.
func (s *splitter) Letters(start, i int) bool {
	within := true // no entity has ended between j and i
	for j := i - 1; j >= max(start, i-maxLink); j-- {
		switch c := s.Text[j]; {
		case c == '>' || c == '\n':
			return true
		case c == '<':
			return false
		case c == ';':
			within = false
		case c == '&' && within && i-j < longestEntity:
			return false
		}
	}
	return true
}

const longestEntity = len("&amp;")
