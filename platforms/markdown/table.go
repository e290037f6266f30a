package markdown

import (
	"bytes"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

const (
	// maxTableWidth is the width, in columns, up to which a table's cells are padded: no screen shows a wider one.
	maxTableWidth = 120
	// maxPadding is how many times its text's size a table may reach by padding.
	maxPadding = 8
)

// tableLines returns n as lines of aligned text.
func tableLines(source []byte, n *extast.Table) []string {
	var rows [][]string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		rows = append(rows, cells(source, row, len(n.Alignments)))
	}
	widths := widthsOf(rows)
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
			rule := make([]string, len(widths))
			for j, w := range widths {
				rule[j] = strings.Repeat("-", max(w, 1))
			}
			out = append(out, strings.Join(rule, "-+-"))
		}
	}
	return out
}

// widthsOf returns the columns' widths, or zeros for a table that is too wide or would be mostly padding.
func widthsOf(rows [][]string) []int {
	var widths []int
	said := 0
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			width := uniseg.StringWidth(cell)
			widths[i] = max(widths[i], width)
			said += width + 1
		}
	}
	width := 0
	for _, w := range widths {
		width += w + len(" | ")
	}
	if width > maxTableWidth || width*len(rows) > maxPadding*said {
		clear(widths)
	}
	return widths
}

// cells returns the texts of a row of a table with width columns. Text beyond the last column, which the parser drops,
// is one more cell.
func cells(source []byte, row ast.Node, width int) []string {
	var out []string
	end := -1
	for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
		words := ""
		if cell.HasChildren() {
			words = strings.Join(strings.Fields(Flat(source, cell)), " ")
		}
		out = append(out, words)
		if lines := cell.Lines(); lines.Len() > 0 {
			end = lines.At(lines.Len() - 1).Stop
		}
	}
	if len(out) == width && end >= 0 {
		rest, _, _ := bytes.Cut(source[end:], []byte("\n"))
		if rest = bytes.Trim(rest, " \t|"); len(rest) > 0 {
			out = append(out, string(rest))
		}
	}
	for len(out) > 1 && out[len(out)-1] == "" { // the parser may have added thousands of empty cells
		out = out[:len(out)-1]
	}
	return out
}

func padded(cell string, width int, align extast.Alignment) string {
	gap := max(width-uniseg.StringWidth(cell), 0)
	left := 0
	switch align {
	case extast.AlignRight:
		left = gap
	case extast.AlignCenter:
		left = gap / 2
	}
	return strings.Repeat(" ", left) + cell + strings.Repeat(" ", gap-left)
}
