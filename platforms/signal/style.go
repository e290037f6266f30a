package signal

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// The styles that Signal knows, in signal-cli's words.
const (
	bold   = "BOLD"
	italic = "ITALIC"
	strike = "STRIKETHROUGH"
	mono   = "MONOSPACE"
)

var form = markdown.Form{
	Parser: markdown.Written,
	Length: utf8.RuneCountInString,
	Marker: markdown.Bulleted("• "),
}

// span is a style over a text, in characters.
type span struct {
	style    string
	from, to int
}

// styled is a message: a text, and styles as signal-cli takes them, "start:length:STYLE" in UTF-16 units.
type styled struct {
	text   string
	styles []string
}

// parts returns the messages that source makes. Text that would come out empty stays as written.
func parts(source string) []styled {
	source = markdown.Clean(source)
	r := renderer{Writer: markdown.NewWriter(source, &form, markdown.Bounds{})}
	text := r.Document(&r)
	if strings.TrimSpace(text) == "" {
		text, r.spans = source, nil
	}
	s := markdown.Runes(text, maxText)
	var out []styled
	for start, end := range s.Parts(&s) {
		for end > start && unicode.IsSpace(s.Text[end-1]) {
			end--
		}
		if end > start {
			out = append(out, part(s.Text, start, end, r.spans))
		}
	}
	return out
}

// part returns the text from start to end, with the styles that lie over it.
func part(text []rune, start, end int, spans []span) styled {
	out := styled{text: string(text[start:end])}
	for _, s := range spans {
		from, to := max(s.from, start), min(s.to, end)
		for from < to && unicode.IsSpace(text[from]) {
			from++
		}
		for from < to && unicode.IsSpace(text[to-1]) {
			to--
		}
		if from < to {
			out.styles = append(out.styles, fmt.Sprintf("%d:%d:%s", units(text[start:from]), units(text[from:to]), s.style))
		}
	}
	return out
}

func units(text []rune) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// renderer is the markdown.Dialect of one document.
type renderer struct {
	*markdown.Writer
	spans []span
}

// over puts a style over the output of body, unless a part of that has the style already.
func (r *renderer) over(style string, body func()) {
	r.Flush()
	at, n := r.At, len(r.spans)
	body()
	if within := slices.ContainsFunc(r.spans[n:], func(s span) bool { return s.style == style }); within { // **a **b** c**
		r.spans = slices.DeleteFunc(r.spans, func(s span) bool { return s.style == style && s.from >= at })
	}
	r.spans = append(r.spans, span{style, at, r.At})
}

func (r *renderer) Heading(n *ast.Heading) { r.over(bold, func() { r.Inlines(n) }) }

func (r *renderer) Quote(body func()) { r.Indented("> ", "> ", body) }

// Code implements markdown.Dialect. Its lines get no prefix.
func (r *renderer) Code(_ string, body func()) {
	r.Verbatim("", func() { r.over(mono, body) })
}

// Inlines implements markdown.Dialect: it writes the children of n, which stand within lines.
func (r *renderer) Inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.inline(c)
	}
}

func (r *renderer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.CodeSpan:
		r.over(mono, func() { r.Inlines(n) })
	case *ast.Emphasis:
		style := italic
		if n.Level > 1 {
			style = bold
		}
		r.over(style, func() { r.Inlines(n) })
	case *extast.Strikethrough:
		r.over(strike, func() { r.Inlines(n) })
	case *ast.Link:
		r.link(n, n.Destination)
	case *ast.Image:
		r.link(n, n.Destination)
	default:
		if said, ok := markdown.Said(r.Source, n); ok {
			r.Write(said)
			return
		}
		r.Inlines(n)
	}
}

// link writes a link or an image: Signal has no links under words.
func (r *renderer) link(n ast.Node, destination []byte) {
	r.Flush()
	before := len(r.Text())
	r.Inlines(n)
	r.Write(markdown.Behind(r.Text()[before:], destination))
}
