// Package dialect turns the CommonMark that models write into Slack's mrkdwn, and cuts it into messages. It is pure.
//
// Invariants:
//
//  1. The output addresses nobody: each "<" begins a link of http, https or mailto, and every other "<", every "&", and
//     every ">" except a quotation's is an entity. This also holds for each part.
//  2. Nothing that was said is lost.
package dialect

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// form is Slack's. Models write CommonMark with GitHub's tables, strikethrough, bare links and task lists.
var form = markdown.Form{
	Parser: goldmark.New(goldmark.WithExtensions(
		markdown.Tables{}, extension.Strikethrough, extension.Linkify, extension.TaskList,
	)).Parser(),
	Length: utf8.RuneCountInString,
	Marker: markdown.Bulleted("• "),
	Blank: func(prefix string) string {
		if strings.HasPrefix(prefix, quoteMark) {
			return quoteMark
		}
		return ""
	},
	Escape: func(s string, code bool) string {
		if code {
			return withoutFences(Escape(s))
		}
		return literal(s)
	},
}

// Render turns clean CommonMark into mrkdwn. Text that would come out empty stays as written.
func Render(source string) string { return renderWithin(source, markdown.Bounds{}) }

// renderWithin is Render, but parses no more of source at once than b allows.
func renderWithin(source string, b markdown.Bounds) string {
	r := renderer{markdown.NewWriter(source, &form, b)}
	if out := r.Document(r); strings.TrimSpace(strings.ReplaceAll(out, joint, "")) != "" {
		return out
	}
	return literal(source)
}

// renderer is the markdown.Dialect of one document.
type renderer struct{ *markdown.Writer }

// Inlines implements markdown.Dialect.
func (r renderer) Inlines(n ast.Node) { r.Write(inlines(r.Source, n)) }

// Heading implements markdown.Dialect. Slack has no headings: they become bold.
func (r renderer) Heading(n *ast.Heading) { r.Write(inlines(r.Source, n, bold)) }

// Quote implements markdown.Dialect. Slack quotes whole lines, and has no quotation inside another: there the marks are
// text.
func (r renderer) Quote(body func()) {
	switch {
	case r.Prefix() != "":
		r.Indented(Escape(quoteMark), Escape(quoteMark), body)
	case r.Begins():
		r.Indented("", quoteMark, body)
	default:
		r.Indented(quoteMark, quoteMark, body)
	}
}

// Code implements markdown.Dialect: a block has no language, and no prefix.
func (r renderer) Code(_ string, body func()) {
	r.Verbatim("", func() {
		r.Write(fence + "\n")
		body()
		r.Write("\n" + fence)
	})
}
