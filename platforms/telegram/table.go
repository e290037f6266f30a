package telegram

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// table writes a table as aligned preformatted text, which is the one form Telegram shows in
// columns.
func (r *renderer) table(n *extast.Table) {
	lines := markdown.Table(r.src, n, func(cell ast.Node) string {
		inner := renderer{src: r.src, flat: true, open: make(map[string]int)}
		inner.inlines(cell)
		return inner.out.String()
	})
	r.verbatim("", func() {
		begin := r.doc.Begin(n)
		r.marks = append(r.marks, mark{at: r.at, start: begin, end: begin})
		r.write(strings.Join(lines, "\n"))
	})
}
