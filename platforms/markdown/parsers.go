package markdown

import (
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// structure finds the blocks of CommonMark with tables, and nothing within lines. It is never changed and
// may be used from any goroutine, as may lineByLine.
var structure = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
	)),
	goldmark.WithExtensions(Tables{}),
).Parser()

// lineByLine finds blocks only as far as single lines tell: what may be a table is a paragraph.
var lineByLine = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

// Tables extends CommonMark with GitHub's tables. With text right above a table and a rule right beneath,
// the library alone takes the text for a heading that stands behind the table.
type Tables struct{}

func (Tables) Extend(m goldmark.Markdown) {
	extension.Table.Extend(m)
	m.Parser().AddOptions(parser.WithParagraphTransformers(util.Prioritized(aboveTable{}, 300)))
}

// aboveTable replaces the paragraph that is left above a table by one that has ended, so that nothing
// further is made of it.
type aboveTable struct{}

// Transform implements parser.ParagraphTransformer. It comes after the one that makes tables.
func (aboveTable) Transform(n *ast.Paragraph, reader text.Reader, _ parser.Context) {
	table, ok := n.NextSibling().(*extast.Table)
	if !ok {
		return
	}
	table.SetPos(n.Lines().At(n.Lines().Len()-1).Stop + 1)
	left := ast.NewParagraph()
	left.SetPos(n.Pos())
	left.SetBlankPreviousLines(n.HasBlankPreviousLines())
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		line = line.TrimLeftSpace(reader.Source())
		if i == n.Lines().Len()-1 {
			line = line.TrimRightSpace(reader.Source())
		}
		left.Lines().Append(line)
	}
	n.Parent().ReplaceChild(n.Parent(), n, left)
}
