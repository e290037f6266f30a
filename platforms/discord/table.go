package discord

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// table writes a table as an aligned code block, which is the one form Discord shows in columns.
func (r *renderer) table(n *extast.Table) {
	r.verbatim("", strings.Join(markdown.Table(r.src, n, func(cell ast.Node) string {
		f := flattener{src: r.src}
		f.children(cell)
		return f.out.String()
	}), "\n"))
}

// flattener writes inline text without its markup, for code blocks show none.
type flattener struct {
	src []byte
	out strings.Builder
}

func (f *flattener) children(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		f.node(c)
	}
}

func (f *flattener) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Segment.Value(f.src))
		if _, code := n.Parent().(*ast.CodeSpan); !code && !n.IsRaw() {
			value = unescaped(value)
		}
		f.out.WriteString(value)
		if n.SoftLineBreak() || n.HardLineBreak() {
			f.out.WriteString(" ")
		}
	case *ast.String:
		f.out.Write(n.Value)
	case *ast.Link:
		f.link(n, n.Destination)
	case *ast.Image:
		f.link(n, n.Destination)
	case *ast.AutoLink:
		f.out.Write(n.Label(f.src))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			seg := n.Segments.At(i)
			f.out.Write(seg.Value(f.src))
		}
	default:
		f.children(n)
	}
}

// link writes a label and, behind it, an address that is not the label.
func (f *flattener) link(n ast.Node, destination []byte) {
	before := f.out.Len()
	f.children(n)
	label := strings.TrimSpace(f.out.String()[before:])
	switch address := strings.TrimPrefix(unescaped(string(destination)), "mailto:"); {
	case address == "" || address == label:
	case label == "":
		f.out.WriteString(address)
	default:
		f.out.WriteString(" (" + address + ")")
	}
}
