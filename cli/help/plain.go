package help

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Width is how many characters a line of a rendered topic has at most, but for code and single words, which stays as it is.
const Width = 80

// Plain renders markdown for a terminal: headings at the left edge, everything below them indented, lines of Width.
func Plain(markdown string) string {
	p := printer{}
	for line := range strings.SplitSeq(markdown, "\n") {
		p.line(line)
	}
	p.flush()
	if p.table != nil {
		p.rows()
	}
	return strings.TrimLeft(p.out.String(), "\n")
}

// printer renders line by line. What it has gathered is one paragraph, list item or row until something else begins.
type printer struct {
	out    strings.Builder
	words  []string   // of the paragraph or item at hand
	mark   string     // in front of its first line: "- ", "1. " or nothing
	indent int        // of the item at hand, in the source: its further lines stand deeper
	tight  bool       // the block before was an item or a row: no empty line between
	fenced bool       // between two fences
	code   bool       // the block before was code, which goes on after an empty line
	empty  bool       // an empty line stands before this one
	table  [][]string // its rows so far, the heading first; nil: none is at hand
}

var (
	itemForm = regexp.MustCompile(`^( *)(- |[0-9]+\. )(.*)$`)
	linkForm = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
	codeForm = regexp.MustCompile("`[^`]*`")
	ruleForm = regexp.MustCompile(`^\|[ :|-]*-[ :|-]*\|$`)
)

func (p *printer) line(line string) {
	trimmed := strings.TrimSpace(line)
	item := itemForm.FindStringSubmatch(line)
	if p.table != nil && !strings.HasPrefix(trimmed, "|") {
		p.rows()
	}
	switch {
	case strings.HasPrefix(trimmed, "```"):
		p.flush()
		p.fenced = !p.fenced
		p.code = false
	case p.fenced:
		p.verbatim(line)
	case trimmed == "":
		p.flush()
		p.empty = true
		return
	case strings.HasPrefix(trimmed, "<!--"): // for whoever edits the file
	case strings.HasPrefix(line, "#"):
		p.flush()
		p.gap()
		wrap(&p.out, "", strings.Fields(inline(strings.TrimLeft(line, "# "))))
		p.tight, p.code = false, false
	case strings.HasPrefix(trimmed, "|"):
		p.row(trimmed)
	case strings.HasPrefix(line, "    ") && len(p.words) == 0 && (item == nil || p.code) && p.indent == 0:
		p.verbatim(strings.TrimPrefix(line, "    "))
	case strings.HasPrefix(line, strings.Repeat(" ", p.indent+4)) && len(p.words) == 0 && item == nil: // code in an item
		p.verbatim(line[:p.indent] + line[p.indent+4:])
	case item != nil:
		p.flush()
		p.begin(strings.Repeat(" ", len(item[1])) + item[2])
		p.indent = len(item[1]) + len(item[2])
		p.words = strings.Fields(inline(item[3]))
	default:
		if len(p.words) == 0 && line == trimmed {
			p.indent = 0
		}
		p.words = append(p.words, strings.Fields(inline(trimmed))...)
		if p.mark == "" && p.indent > 0 { // an item's second paragraph
			p.mark = strings.Repeat(" ", p.indent)
		}
	}
	p.empty = false
}

// begin starts an item with its mark. Items that follow one another have no empty line between them.
func (p *printer) begin(mark string) {
	p.mark = mark
	p.tight = p.tight && !p.empty
}

// flush writes what was gathered.
func (p *printer) flush() {
	if len(p.words) == 0 {
		return
	}
	if !p.tight || p.mark == "" {
		p.gap()
	}
	wrap(&p.out, "  "+p.mark, p.words)
	p.tight = p.mark != ""
	p.words, p.mark, p.code = nil, "", false
}

// gap is one empty line, unless nothing stands above.
func (p *printer) gap() {
	if p.out.Len() > 0 {
		p.out.WriteByte('\n')
	}
}

// verbatim writes a line of code.
func (p *printer) verbatim(line string) {
	p.flush()
	if !p.code || p.empty {
		p.gap()
	}
	if line = strings.TrimRight("      "+line, " "); line != "" {
		p.out.WriteString(line)
	}
	p.out.WriteByte('\n')
	p.code, p.tight = true, false
}

// row takes one row of a table.
func (p *printer) row(line string) {
	p.flush()
	if ruleForm.MatchString(line) {
		return
	}
	var cells []string
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, inline(strings.TrimSpace(cell)))
	}
	p.table = append(p.table, cells)
}

// rows writes the table: in columns where that fits, else each row's first cell, and below it the others, with their
// headings where there are several.
func (p *printer) rows() {
	rows, widths := p.table, p.widths()
	p.table, p.tight, p.code = nil, false, false
	if widths == nil {
		for _, cells := range rows[1:] {
			p.gap()
			wrap(&p.out, "  ", strings.Fields(cells[0]))
			for n, cell := range cells[1:] {
				if len(cells) > 2 && cell != "" {
					cell = rows[0][min(n+1, len(rows[0])-1)] + ": " + cell
				}
				if cell != "" {
					wrap(&p.out, "      ", strings.Fields(cell))
				}
			}
		}
		return
	}
	p.gap()
	for _, cells := range rows {
		line := " "
		for n, cell := range cells {
			line += " " + strings.ReplaceAll(cell, glue, " ") + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+1)
		}
		p.out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// widths are those of the table's columns; nil: side by side they are wider than a line, or a row has too many.
func (p *printer) widths() []int {
	widths, total := make([]int, len(p.table[0])), 2
	for _, cells := range p.table {
		for n, cell := range cells {
			if n >= len(widths) {
				return nil
			}
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	for _, w := range widths {
		total += w + 2
	}
	if total > Width {
		return nil
	}
	return widths
}

// glue stands for a blank at which no line ends: a command is read, and copied, from one line.
const glue = "\x00"

// inline is a text without the marks of markdown; code keeps its own, which show where a command begins and ends.
func inline(s string) string {
	s = linkForm.ReplaceAllStringFunc(s, func(link string) string {
		m := linkForm.FindStringSubmatch(link)
		if topic, ok := strings.CutSuffix(m[2], ".md"); ok && !strings.Contains(topic, "/") {
			return m[1] + " (`hermes-connector help " + topic + "`)"
		}
		if m[1] == m[2] {
			return m[1]
		}
		return m[1] + " (" + m[2] + ")"
	})
	s = codeForm.ReplaceAllStringFunc(s, func(code string) string { return strings.ReplaceAll(code, " ", glue) })
	return strings.ReplaceAll(s, "**", "")
}

// wrap writes words behind first, and the lines after the first below its end.
func wrap(out *strings.Builder, first string, words []string) {
	at := utf8.RuneCountInString(first)
	rest := strings.Repeat(" ", at)
	out.WriteString(first)
	begun := false
	for _, word := range words {
		n := utf8.RuneCountInString(word)
		switch {
		case !begun:
		case at+1+n > Width:
			out.WriteString("\n" + rest)
			at = len(rest)
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(strings.ReplaceAll(word, glue, " "))
		at, begun = at+n, true
	}
	out.WriteByte('\n')
}
