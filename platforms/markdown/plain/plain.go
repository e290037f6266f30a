// Package plain renders CommonMark for networks that show plain text only, and cuts the result into messages. It leaves
// out formats, and puts addresses behind their words.
package plain

import (
	"errors"
	"strings"

	"github.com/yuin/goldmark/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// The errors of Parts.
var (
	ErrEmpty   = errors.New("the message is empty")
	ErrTooLong = errors.New("the message is too long")
)

var form = markdown.Form{
	Parser: markdown.Written,
	Length: func(s string) int { return len(s) },
	Marker: markdown.Bulleted("- "),
}

// Parts returns the messages that source makes: each at most limit long, where size returns the length of a character.
// Errors: ErrEmpty, ErrTooLong.
func Parts(source string, limit int, size func(rune) int) (parts []string, err error) {
	if markdown.TooLong(source) {
		return nil, ErrTooLong
	}
	s := splitter{markdown.Runes(Render(markdown.Clean(source)), limit), size}
	for start, end := range s.Parts(&s) {
		if part := strings.TrimRight(string(s.Text[start:end]), " \t\n"); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, ErrEmpty
	}
	return parts, nil
}

// Render returns source as plain text. Text that would come out empty stays as written.
func Render(source string) string {
	r := renderer{markdown.NewWriter(source, &form, markdown.Bounds{})}
	if out := r.Document(r); strings.TrimSpace(out) != "" {
		return out
	}
	return source
}

// renderer is the markdown.Dialect of one document.
type renderer struct{ *markdown.Writer }

func (r renderer) Heading(n *ast.Heading) { r.Inlines(n) }

func (r renderer) Quote(body func()) { r.Indented("> ", "> ", body) }

func (r renderer) Code(_ string, body func()) { body() }

func (r renderer) Inlines(n ast.Node) { r.Write(markdown.Flat(r.Source, n)) }

// splitter is the markdown.Cuts of one text.
type splitter struct {
	markdown.Splitter[rune]
	size func(rune) int
}

// Reach implements markdown.Cuts.
func (s *splitter) Reach(start int) int {
	n := 0
	for i := start; i < len(s.Text); i++ {
		if n += s.size(s.Text[i]); n > s.Limit {
			return max(i, start+1)
		}
	}
	return len(s.Text)
}
