package telegram

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

// table writes a table as aligned preformatted text, which is the one form Telegram shows in
// columns.
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
	r.verbatim("", func() {
		if pos := n.Pos(); pos >= 0 {
			r.marks = append(r.marks, mark{at: r.at, start: pos, end: pos})
		}
		for i, row := range rows {
			if i > 0 {
				r.write("\n")
			}
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
			r.write(strings.TrimRight(line.String(), " "))
			if i == 0 {
				rule := make([]string, len(widths))
				for j, w := range widths {
					rule[j] = strings.Repeat("-", max(w, 1))
				}
				r.write("\n" + strings.Join(rule, "-+-"))
			}
		}
	})
}

// cells are the texts of a row. What stands beyond the last column, which CommonMark's tables
// drop, becomes one more cell.
func (r *renderer) cells(row ast.Node, width int) []string {
	var cells []string
	end := -1
	for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
		inner := renderer{src: r.src, used: r.used, flat: true, open: make(map[string]int)}
		inner.inlines(cell)
		cells = append(cells, strings.Join(strings.Fields(inner.out.String()), " "))
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
