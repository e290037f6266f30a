// Package plain renders CommonMark for networks that show plain text only, and cuts what came out into
// messages. Formats are left out, addresses stand behind what they belong to.
package plain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// The reasons for which there are no Parts.
var (
	ErrEmpty   = errors.New("the message is empty")
	ErrTooLong = errors.New("the message is too long")
)

// form is that of what models write: CommonMark with GitHub's tables, strikethrough and task lists.
var form = markdown.Form{
	Parser: goldmark.New(goldmark.WithExtensions(markdown.Tables{}, extension.Strikethrough, extension.TaskList)).Parser(),
	Length: func(s string) int { return len(s) },
	Marker: func(list *ast.List, number int) string {
		if list.IsOrdered() {
			return fmt.Sprintf("%d%c ", number, list.Marker)
		}
		return "- "
	},
}

// Parts are the messages that source makes: each at most limit long, where size says how much a character
// takes. Errors: ErrEmpty, ErrTooLong.
func Parts(source string, limit int, size func(rune) int) (parts []string, err error) {
	if markdown.TooLong(source) {
		return nil, ErrTooLong
	}
	source = markdown.Clean(source)
	text := Render(source)
	s := splitter{size: size, Splitter: markdown.Splitter[rune]{
		Text: []rune(text), Limit: limit,
		Decode: func(r []rune) string { return string(r) },
		Length: func(s string) int { return len([]rune(s)) },
	}}
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

// Render is source as plain text. What would leave nothing to read stands as it was written.
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

// Inlines writes the children of n, which stand within lines.
func (r renderer) Inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.inline(c)
	}
}

func (r renderer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Segment.Value(r.Source))
		if _, code := n.Parent().(*ast.CodeSpan); code {
			value = strings.ReplaceAll(value, "\n", " ")
		} else if !n.IsRaw() {
			value = markdown.Address([]byte(value))
		}
		r.Write(value)
		if n.SoftLineBreak() || n.HardLineBreak() {
			r.Write("\n")
		}
	case *ast.String:
		r.Write(string(n.Value))
	case *ast.Link:
		r.link(n, n.Destination)
	case *ast.Image:
		r.link(n, n.Destination)
	case *ast.AutoLink:
		r.Write(string(n.Label(r.Source)))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			at := n.Segments.At(i)
			r.Write(string(at.Value(r.Source)))
		}
	case *extast.TaskCheckBox:
		box := "[ ] "
		if n.IsChecked {
			box = "[x] "
		}
		r.Write(box)
	default:
		r.Inlines(n)
	}
}

// link writes a link or an image with its address behind it, unless that is what it says already.
func (r renderer) link(n ast.Node, destination []byte) {
	before := len(r.Text())
	r.Inlines(n)
	said, address := strings.TrimSpace(r.Text()[before:]), strings.TrimPrefix(markdown.Address(destination), "mailto:")
	switch {
	case address == "" || said == address:
	case said == "":
		r.Write(address)
	default:
		r.Write(" (" + address + ")")
	}
}

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

func (s *splitter) Words(int, int) func(int) bool { return func(int) bool { return true } }

func (s *splitter) Letters(int, int) bool { return true }
