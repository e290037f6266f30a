package dialect

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// MaxText is the most characters that one message has, the limit of the gateways' own Matrix adapter. An event has room
// for far more, even with the text a second time as HTML.
const MaxText = 4000

// Clean prepares source for the parser and for JSON: among other things it replaces NUL characters.
func Clean(source string) string { return strings.ReplaceAll(markdown.Clean(source), "\x00", "\uFFFD") }

// Split cuts markdown into parts of at most limit characters. A code block that is cut ends with its part and begins
// again with the next. Only blanks at the cuts are lost.
func Split(source string, limit int) (parts []string) {
	if utf8.RuneCountInString(source) <= limit {
		if strings.TrimSpace(source) == "" {
			return nil
		}
		return []string{source}
	}
	s := markdown.Runes(source, limit)
	s.Blocks = blocks(source, limit)
	for start, end := range s.Parts(&s) {
		if part := s.Part(start, end); strings.TrimSpace(part) != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// blocks returns the fenced code blocks of source, with their positions in characters. It leaves out a block whose
// fences would fill half a part.
func blocks(source string, limit int) (out []markdown.CodeBlock) {
	at := 0
	var open *markdown.CodeBlock
	fence := ""
	for line := range strings.Lines(source) {
		bare := strings.TrimSpace(line)
		length := utf8.RuneCountInString(line)
		switch mark := fenceOf(bare); {
		case open == nil && mark != "" && strings.HasSuffix(line, "\n") && len(line)+len(mark) < limit/2:
			open, fence = &markdown.CodeBlock{Begin: at, From: at + length, Open: line, Close: "\n" + mark}, mark
		case open != nil && strings.HasPrefix(bare, fence) && strings.Trim(bare, fence[:1]) == "":
			open.To, open.End = max(at-1, open.From), at+utf8.RuneCountInString(strings.TrimRightFunc(line, unicode.IsSpace))
			out, open = append(out, *open), nil
		}
		at += length
	}
	if open != nil { // no fence closed the block: it ends with the text
		open.To, open.End = at, at
		out = append(out, *open)
	}
	return out
}

// fenceOf returns the fence with which a trimmed line begins; empty if it begins with none.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, mark))
		if n >= 3 && (mark == "~" || !strings.Contains(line[n:], "`")) {
			return line[:n]
		}
	}
	return ""
}
