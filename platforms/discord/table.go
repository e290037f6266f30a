package discord

import (
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// maxTableWidth is the widest table, in columns, whose cells are padded. No screen shows a wider
// one in columns, and padding would let a small table grow without bound.
const maxTableWidth = 120

// table writes a table as an aligned code block, which is the one form Discord shows in columns.
func (r *renderer) table(n *extast.Table) {
	var rows [][]string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		rows = append(rows, r.cells(row, len(n.Alignments)))
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	width := 0
	for _, w := range widths {
		width += w + len(" | ")
	}
	if width > maxTableWidth {
		clear(widths)
	}
	var out []string
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			if j > 0 {
				line.WriteString(" | ")
			}
			align := extast.AlignNone
			if j < len(n.Alignments) {
				align = n.Alignments[j]
			}
			line.WriteString(padded(cell, widths[j], align))
		}
		out = append(out, strings.TrimRight(line.String(), " "))
		if i == 0 {
			rules := make([]string, len(widths))
			for j, w := range widths {
				rules[j] = strings.Repeat("-", max(w, 1))
			}
			out = append(out, strings.Join(rules, "-+-"))
		}
	}
	r.verbatim("", strings.Join(out, "\n"))
}

// cells are the texts of a row. What stands beyond the last column, which CommonMark's tables
// drop, becomes one more cell.
func (r *renderer) cells(row ast.Node, width int) []string {
	var cells []string
	end := -1
	for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
		f := flattener{src: r.src}
		f.children(cell)
		cells = append(cells, strings.Join(strings.Fields(f.out.String()), " "))
		if lines := cell.Lines(); lines.Len() > 0 {
			end = lines.At(lines.Len() - 1).Stop
		}
	}
	if len(cells) == width && end >= 0 {
		rest, _, _ := strings.Cut(string(r.src[end:]), "\n")
		if rest = strings.Trim(rest, " \t|"); rest != "" {
			cells = append(cells, rest)
		}
	}
	return cells
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

func padded(cell string, width int, align extast.Alignment) string {
	gap := max(width-columns(cell), 0)
	left := 0
	switch align {
	case extast.AlignRight:
		left = gap
	case extast.AlignCenter:
		left = gap / 2
	}
	return strings.Repeat(" ", left) + cell + strings.Repeat(" ", gap-left)
}

// columns is how wide s stands in a fixed-width font.
func columns(s string) int {
	n := 0
	for _, c := range s {
		switch {
		case unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf):
		case util.IsEastAsianWideRune(c) || c >= 0x1F300 && c <= 0x1FAFF:
			n += 2
		default:
			n++
		}
	}
	return n
}
