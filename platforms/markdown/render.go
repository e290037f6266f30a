package markdown

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// rule replaces a thematic break, which none of our networks has.
const rule = "———"

// Form is the part of a network's dialect that needs no method.
type Form struct {
	Parser parser.Parser
	Length func(s string) int                       // returns the length of s in the network's units
	Marker func(list *ast.List, number int) string  // returns the beginning of a list item
	Blank  func(prefix string) string               // returns the part of the lines' prefix that a blank line has; nil: none
	Escape func(s string, code bool) (plain string) // escapes what the network would take for markup; nil: nothing
}

// Bulleted returns a Marker for Form. It begins a numbered item with its number and its author's delimiter, and every
// other item with bullet.
func Bulleted(bullet string) func(list *ast.List, number int) string {
	return func(list *ast.List, number int) string {
		if list.IsOrdered() {
			return fmt.Sprintf("%d%c ", number, list.Marker)
		}
		return bullet
	}
}

// Dialect writes, with its Writer, the blocks that look different on each network.
type Dialect interface {
	// Inlines writes the inline content of n.
	Inlines(n ast.Node)
	Heading(n *ast.Heading)
	// Quote makes a quotation of the output of body.
	Quote(body func())
	// Code makes a code block of the output of body, which is not empty. language may be empty.
	Code(language string, body func())
}

// Mark says that the output from At on, in the network's units, comes from the source's bytes from Start to End.
type Mark struct{ At, Start, End int }

// Writer writes a document in a dialect. Nothing is lost: text that is not markdown is written unchanged.
type Writer struct {
	// Set once, by NewWriter.
	Source []byte // the text to which the nodes' positions refer
	doc    *Document
	form   *Form

	Marks []Mark // sorted by At
	At    int    // how much is written, in the network's units

	out     strings.Builder
	prefix  string // of every line: marks of quotations, indentation of lists
	pending bool   // prefix is due before the next thing on this line
	code    bool   // within a code block
}

// NewWriter makes a writer of source, which is parsed in pieces within b.
func NewWriter(source string, f *Form, b Bounds) *Writer {
	doc := Read(source, f.Parser, b)
	return &Writer{Source: doc.Source(), doc: doc, form: f, pending: true}
}

// Clean makes any string something that can be parsed and sent: it is valid UTF-8, and its lines end with \n.
func Clean(source string) string {
	source = strings.ToValidUTF8(source, "\uFFFD")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
}

// Document writes the whole document with d, and returns the text.
func (w *Writer) Document(d Dialect) string {
	w.blocks(d, w.doc.Blocks())
	return w.out.String()
}

// Text returns the output so far.
func (w *Writer) Text() string { return w.out.String() }

// Begins reports whether nothing is written on this line yet.
func (w *Writer) Begins() bool { return w.pending }

// Prefix returns the present prefix of lines.
func (w *Writer) Prefix() string { return w.prefix }

// Write appends s; lines after the first get the prefix.
func (w *Writer) Write(s string) {
	for {
		line, rest, more := strings.Cut(s, "\n")
		if line != "" {
			w.Flush()
			w.append(line)
		}
		if !more {
			return
		}
		if w.pending && w.form.Blank != nil {
			w.append(w.form.Blank(w.prefix))
		}
		w.append("\n")
		w.pending = true
		s = rest
	}
}

// Flush writes the prefix that is due.
func (w *Writer) Flush() {
	if w.pending {
		w.pending = false
		w.append(w.prefix)
	}
}

func (w *Writer) append(s string) {
	w.out.WriteString(s)
	w.At += w.form.Length(s)
}

// Copy appends the source's bytes from start to end as text, escaped for the network, and marks where they came from.
// The prefix is written before, so that the mark begins behind it.
func (w *Writer) Copy(start, end int) {
	if start >= end {
		return
	}
	if w.Source[start] != '\n' {
		w.Flush()
	}
	w.Mark(start, end)
	w.plain(string(w.Source[start:end]))
}

// Mark remembers that the next output comes from start to end in the source.
func (w *Writer) Mark(start, end int) { w.Marks = append(w.Marks, Mark{w.At, start, end}) }

// plain appends s as text: what the network would take for markup in it is escaped.
func (w *Writer) plain(s string) {
	if w.form.Escape != nil {
		s = w.form.Escape(s, w.code)
	}
	w.Write(s)
}

// Indented writes marker, then body with prefix on its further lines.
func (w *Writer) Indented(marker, prefix string, body func()) {
	w.Write(marker)
	outer := w.prefix
	w.prefix += prefix
	body()
	w.prefix = outer
}

// Verbatim writes body as code, from the beginning of a line. Until the end of body, prefix replaces the present prefix
// of lines.
func (w *Writer) Verbatim(prefix string, body func()) {
	if text := w.out.String(); text != "" && !strings.HasSuffix(text, "\n") {
		w.Write("\n")
	}
	outer := w.prefix
	w.prefix, w.code = prefix, true
	body()
	w.prefix, w.code = outer, false
}

// blocks writes blocks, with the author's own blank lines between them.
func (w *Writer) blocks(d Dialect, list iter.Seq[Block]) {
	first := true
	for b := range list {
		if !first {
			w.between(b.Blank)
		}
		first = false
		w.block(d, b)
	}
}

// between ends a line, and adds a blank line if the author left one there.
func (w *Writer) between(blank bool) {
	w.Write("\n")
	if blank {
		w.Write("\n")
	}
}

// block writes one block, with d where the networks differ.
func (w *Writer) block(d Dialect, b Block) {
	switch n := b.Node.(type) {
	case nil: // not fit to be parsed
		w.Copy(b.Start, b.End)
	case *ast.Heading:
		d.Heading(n)
	case *ast.List:
		w.list(d, n, b.Number)
	case *ast.Blockquote:
		d.Quote(func() { w.blocks(d, w.doc.Children(n)) })
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = strings.TrimSpace(string(n.Info.Segment.Value(w.Source)))
		}
		w.fenced(d, info, n.Lines())
	case *ast.CodeBlock:
		w.fenced(d, "", n.Lines())
	case *ast.HTMLBlock:
		lines := n.Lines().Sliced(0, n.Lines().Len())
		if n.HasClosure() {
			lines = append(lines[:len(lines):len(lines)], n.ClosureLine)
		}
		w.lines(lines)
	case *ast.ThematicBreak:
		w.Write(rule)
	case *ast.LinkReferenceDefinition:
		said := "[" + string(n.Label) + "]: " + string(n.Destination)
		if len(n.Title) > 0 {
			said += " \"" + string(n.Title) + "\""
		}
		w.plain(said)
	case *extast.Table: // aligned in a code block, which is the one form that networks show in columns
		d.Code("", func() {
			begin := w.doc.Begin(n)
			w.Mark(begin, begin)
			w.plain(strings.Join(tableLines(w.Source, n), "\n"))
		})
	default: // paragraphs and the bare text of list items
		d.Inlines(n)
	}
}

func (w *Writer) list(d Dialect, n *ast.List, number int) {
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item != n.FirstChild() {
			w.between(item.HasBlankPreviousLines())
		}
		marker := w.form.Marker(n, number)
		number++
		w.Indented(marker, strings.Repeat(" ", utf8.RuneCountInString(marker)), func() { w.blocks(d, w.doc.Children(item)) })
	}
}

// fenced writes a code block. An info string that cannot be a language, or has no code beneath it, becomes the first
// line, because its text would be lost otherwise.
func (w *Writer) fenced(d Dialect, info string, segs *text.Segments) {
	lines := segs.Sliced(0, segs.Len())
	for len(lines) > 0 && len(bytes.TrimSpace(lines[0].Value(w.Source))) == 0 {
		lines = lines[1:]
	}
	language := info
	if len(lines) == 0 || !IsLanguage(info) {
		language = ""
	} else {
		info = ""
	}
	if info == "" && len(lines) == 0 {
		return
	}
	d.Code(language, func() {
		w.plain(info)
		if info != "" && len(lines) > 0 {
			w.Write("\n")
		}
		w.lines(lines)
	})
}

// lines writes whole lines of the source as they are, without blanks at the end.
func (w *Writer) lines(lines []text.Segment) {
	for len(lines) > 0 && util.IsBlank(lines[len(lines)-1].Value(w.Source)) {
		lines = lines[:len(lines)-1]
	}
	for i, seg := range lines {
		w.Write(strings.Repeat(" ", seg.Padding))
		if i == len(lines)-1 {
			seg = seg.TrimRightSpace(w.Source)
		}
		w.Copy(seg.Start, seg.Stop)
	}
}

// Written parses what models write: CommonMark with GitHub's tables, strikethrough and task lists. It is never changed,
// and may be used from any goroutine.
var Written = goldmark.New(goldmark.WithExtensions(Tables{}, extension.Strikethrough, extension.TaskList)).Parser()

// structure finds the blocks of CommonMark with tables, and nothing within lines.
var structure = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
	)),
	goldmark.WithExtensions(Tables{}),
).Parser()

// lineByLine finds only the blocks that one line alone shows. A table needs two lines, so lineByLine makes a paragraph
// of it.
var lineByLine = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

// Tables extends CommonMark with GitHub's tables. If text is right above a table, and a rule right beneath, the library
// alone makes a heading of that text, and puts it behind the table.
type Tables struct{}

func (Tables) Extend(m goldmark.Markdown) {
	extension.Table.Extend(m)
	m.Parser().AddOptions(parser.WithParagraphTransformers(util.Prioritized(aboveTable{}, 300)))
}

// aboveTable runs after the transformer that makes tables. It replaces the paragraph left above a table by one that has
// ended, so that nothing else is made of it.
type aboveTable struct{}

// Transform implements parser.ParagraphTransformer.
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
