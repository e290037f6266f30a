package dialect

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// MaxText is how many code points a Discord message may have.
const MaxText = 2000

// Split cuts text in Discord's dialect into parts of at most limit code points. A code block or quotation in which a
// cut falls is closed at the end of the part and opened again in the next. Only blanks are lost, at the cuts and in
// very wide gaps.
func Split(text string, limit int) []string {
	text, blocks := fences(text)
	for _, b := range blocks {
		if utf8.RuneCountInString(b.Open)+len(b.Close)+len(quoteMark) > limit/2 { // too little would be left for code
			blocks = nil
			break
		}
	}
	s := splitter{markdown.Runes(text, limit)}
	s.Blocks = blocks
	var parts []string
	for start, end := range s.Parts(&s) {
		parts = append(parts, s.part(start, end))
	}
	return parts
}

// splitter is the markdown.Cuts of one text.
type splitter struct{ markdown.Splitter[rune] }

// inline finds stretches within a line that make sense only as a whole.
var inline = regexp.MustCompile("\\[[^\\]\n]*\\]\\([^)\n]*\\)|`{3,}[^`\n]+`{3,}|`[^`\n]+`|\\*\\*[^*\n]+\\*\\*|\\*[^*\\s][^*\n]*\\*|" +
	"__[^_\n]+__|~~[^~\n]+~~|\\|\\|[^|\n]+\\|\\||<[^>\\s]{1,100}>")

// wide are blanks in a row that would leave no good place for a cut.
var wide = regexp.MustCompile(`[\t\v\f\r\x{85}\pZ]{40,}`)

// fences finds the code blocks of text, by their places in whole. whole is text with three changes: no blanks stand
// behind a fence that opens a block, wide gaps outside of code are narrowed to two blanks, and the last block is
// closed.
func fences(text string) (whole string, blocks []markdown.CodeBlock) {
	var out strings.Builder
	out.Grow(len(text))
	at := 0
	var b *markdown.CodeBlock
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
			b = &markdown.CodeBlock{Begin: at, From: at + len(line), Open: line, Close: "\n" + quote + "```"}
		case b != nil && bare == b.Close[1:]:
			b.To, b.End = at-1, at+len(bare)
			blocks, b = append(blocks, *b), nil
		case b == nil:
			line = wide.ReplaceAllString(line, "  ") // two, because one may belong to a quotation mark
		}
		out.WriteString(line)
		at += utf8.RuneCountInString(line)
	}
	if b != nil {
		out.WriteString(b.Close)
		b.To, b.End = at, at+len(b.Close)
		blocks = append(blocks, *b)
	}
	return out.String(), blocks
}

// longestFence is the length of the longest trimmed line that begins a code block.
const longestFence = len(quoteMark) + len("```") + markdown.MaxLanguage

// opensFence reports whether a line without blanks at its end begins a code block.
func opensFence(line string) bool {
	info, ok := strings.CutPrefix(strings.TrimPrefix(line, quoteMark), "```")
	return ok && markdown.IsLanguage(info)
}

// lead returns what a part that begins at start needs before its text: the opening of its code block, and the mark of a
// quotation.
func (s *splitter) lead(start int) string {
	lead := ""
	if b := s.CodeAt(start); b != nil {
		lead = b.Open
	}
	line := s.lineOf(start)
	if begin := line + len(quoteMark); begin <= start && string(s.Text[line:begin]) == quoteMark {
		lead += quoteMark
	}
	return lead
}

// lineOf returns where the line of i begins.
func (s *splitter) lineOf(i int) int {
	for i > 0 && s.Text[i-1] != '\n' {
		i--
	}
	return i
}

// part returns the text from start to end as a message: with lead before it, and with a code block closed that is cut
// at the end.
func (s *splitter) part(start, end int) string {
	text := s.lead(start) + string(s.Text[start:end])
	if b := s.CodeAt(end); b != nil {
		return text + b.Close
	}
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	for strings.HasSuffix(text, "\n>") { // a blank line of a quotation, now without its blank
		text = strings.TrimRightFunc(strings.TrimSuffix(text, ">"), unicode.IsSpace)
	}
	return text
}

func (s *splitter) Reach(start int) int {
	return start + s.Limit - utf8.RuneCountInString(s.lead(start))
}

func (s *splitter) Words(start, end int) func(int) bool {
	whole := s.Wholes(inline, start, end)
	return func(i int) bool { return !whole.Torn(i) && s.Letters(start, i) }
}

// Letters implements markdown.Cuts: neither piece of a line that is cut may be a fence: neither the end of the part
// that begins at start, nor the beginning of the next part.
func (s *splitter) Letters(start, i int) bool {
	line := i
	for line > start && s.Text[line-1] != '\n' {
		line--
	}
	return !s.isFence(line, i) && !s.isFence(s.Skip(i), len(s.Text))
}

// isFence reports whether the runes from start to the end of their line, or to limit if that comes first, begin a code block.
func (s *splitter) isFence(start, limit int) bool {
	end := start
	for i := start; i < limit && s.Text[i] != '\n'; i++ {
		switch {
		case unicode.IsSpace(s.Text[i]):
		case i-start >= longestFence:
			return false
		default:
			end = i + 1
		}
	}
	return opensFence(string(s.Text[start:end]))
}
