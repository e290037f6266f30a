package whatsapp

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// Lengths are in UTF-16 units, at most two per character, because WhatsApp's unit is not documented.
const (
	maxText = 4096
	// maxBelow is the longest text of a question with buttons, and of a file's caption.
	maxBelow = 1024
)

const fence = "```"

var form = markdown.Form{
	Parser: markdown.Written,
	Length: utf8.RuneCountInString,
	Marker: func(list *ast.List, number int) string {
		if list.IsOrdered() {
			return fmt.Sprintf("%d. ", number)
		}
		return "- "
	},
}

// render returns source in WhatsApp's dialect. Text that would come out empty stays as written.
func render(source string) string {
	source = markdown.Clean(source)
	r := renderer{markdown.NewWriter(source, &form, markdown.Bounds{})}
	if out := r.Document(r); strings.TrimSpace(out) != "" {
		return out
	}
	return source
}

// parts returns the messages that a text in WhatsApp's dialect makes, each of at most limit units. A block of code that
// is cut ends with its part and begins again with the next.
func parts(text string, limit int) (out []string) {
	s := splitter{markdown.Runes(text, limit)}
	s.Blocks = blocks(text)
	for start, end := range s.Parts(&s) {
		if part := s.Part(start, end); part != "" {
			out = append(out, part)
		}
	}
	return out
}

var code = regexp.MustCompile("(?ms)^```\n(.*?)\n```$")

// blocks returns the blocks of code in text.
func blocks(text string) (out []markdown.CodeBlock) {
	at, runes := 0, 0
	for _, m := range code.FindAllStringSubmatchIndex(text, -1) {
		begin := runes + utf8.RuneCountInString(text[at:m[0]])
		from := begin + len(fence) + 1
		to := from + utf8.RuneCountInString(text[m[2]:m[3]])
		out = append(out, markdown.CodeBlock{Begin: begin, From: from, To: to, End: to + 1 + len(fence), Open: fence + "\n", Close: "\n" + fence})
		at, runes = m[1], to+1+len(fence)
	}
	return out
}

// splitter is the markdown.Cuts of one text.
type splitter struct{ markdown.Splitter[rune] }

// Reach implements markdown.Cuts. It leaves room for the fences that a cut adds.
func (s *splitter) Reach(start int) int {
	left := s.Limit - 2*(len(fence)+1)
	if len(s.Blocks) == 0 {
		left = s.Limit
	}
	for i := start; i < len(s.Text); i++ {
		if left -= utf16.RuneLen(s.Text[i]); left < 0 {
			return max(i, start+1)
		}
	}
	return len(s.Text)
}

func units(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// renderer is the markdown.Dialect of one document.
type renderer struct{ *markdown.Writer }

func (r renderer) Heading(n *ast.Heading) { r.Write(around("*", r.inside(n, "*"))) }

func (r renderer) Quote(body func()) { r.Indented("> ", "> ", body) }

// Code implements markdown.Dialect. A fence in the code itself ends the block: WhatsApp has no escape for it.
func (r renderer) Code(_ string, body func()) {
	r.Verbatim("", func() {
		r.Write(fence + "\n")
		body()
		r.Write("\n" + fence)
	})
}

// Inlines implements markdown.Dialect: it writes the children of n, which stand within lines.
func (r renderer) Inlines(n ast.Node) { r.Write(r.inside(n, "")) }

// inside renders the children of n. within holds the marks of the formats around them.
func (r renderer) inside(n ast.Node, within string) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		out.WriteString(r.inline(c, within))
	}
	return out.String()
}

func (r renderer) inline(n ast.Node, within string) string {
	marked := func(mark string) string {
		if strings.Contains(within, mark) {
			return r.inside(n, within)
		}
		return around(mark, r.inside(n, within+mark))
	}
	switch n := n.(type) {
	case *ast.CodeSpan:
		return "`" + r.inside(n, within) + "`"
	case *ast.Emphasis:
		if n.Level > 1 {
			return marked("*")
		}
		return marked("_")
	case *extast.Strikethrough:
		return marked("~")
	case *ast.Link: // WhatsApp has no links under words
		said := r.inside(n, within)
		return said + markdown.Behind(said, n.Destination)
	case *ast.Image:
		said := r.inside(n, within)
		return said + markdown.Behind(said, n.Destination)
	}
	if said, ok := markdown.Said(r.Source, n); ok {
		return said
	}
	return r.inside(n, within)
}

// around puts mark around each line of text: WhatsApp's formats end with their line, and begin and end at a letter.
func around(mark, text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		core := strings.TrimSpace(line)
		if core == "" {
			continue
		}
		before, after, _ := strings.Cut(line, core)
		lines[i] = before + mark + core + mark + after
	}
	return strings.Join(lines, "\n")
}
