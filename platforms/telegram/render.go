package telegram

import (
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// commonMark parses what models write: CommonMark with GitHub's tables, strikethrough, bare
// links and task lists. It is never changed and may be used from any goroutine.
var commonMark = goldmark.New(goldmark.WithExtensions(
	markdown.Tables{}, extension.Strikethrough, extension.Linkify, extension.TaskList, spoilers{},
)).Parser()

// clean makes any string something that can be parsed and sent: valid UTF-8, one sort of line end.
func clean(source string) string {
	source = strings.ToValidUTF8(source, "\uFFFD")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
}

// render turns markdown into text and entities. Nothing that was said is lost: what is no
// markdown stands in the text as it is, and markup that would come to nothing is shown
// literally. The argument must be clean.
func render(source string) rich { return renderWithin(source, markdown.Bounds{}) }

// renderWithin is render with no more of source parsed at once than b allows.
func renderWithin(source string, b markdown.Bounds) rich {
	doc := markdown.Read(source, commonMark, b)
	r := renderer{doc: doc, src: doc.Source(), open: make(map[string]int)}
	r.blocks(doc.Blocks())
	out := r.out.String()
	if strings.TrimSpace(out) == "" {
		return plain(source)
	}
	return rich{text: out, entities: tidy(encode16(out), r.entities), marks: r.marks}
}

// plain is markdown as it stands.
func plain(markdown string) rich {
	return rich{text: markdown, marks: []mark{{end: len(markdown)}}}
}

// renderer walks one document.
type renderer struct {
	// Set once.
	doc *markdown.Document
	src []byte

	out      strings.Builder
	at       int // length of out in UTF-16 units
	prefix   string
	pending  bool // prefix is due before the next thing on this line
	flat     bool // no formats here: the cells of a table
	open     map[string]int
	entities []style // in tree order; tidied at the end
	marks    []mark
}

// write appends s; lines after the first get the prefix.
func (r *renderer) write(s string) {
	for {
		line, rest, more := strings.Cut(s, "\n")
		if line != "" {
			r.flush()
			r.append(line)
		}
		if !more {
			return
		}
		r.append("\n")
		r.pending = true
		s = rest
	}
}

// flush writes the prefix that is due.
func (r *renderer) flush() {
	if r.pending {
		r.pending = false
		r.append(r.prefix)
	}
}

func (r *renderer) append(s string) {
	r.out.WriteString(s)
	r.at += units16(s)
}

// copy appends source bytes as they are, and remembers where they came from.
func (r *renderer) copy(start, end int) {
	if start >= end {
		return
	}
	if r.src[start] != '\n' {
		r.flush()
	}
	r.marks = append(r.marks, mark{at: r.at, start: start, end: end})
	r.write(string(r.src[start:end]))
}

// format lays e over what body writes, unless a format around it forbids that.
func (r *renderer) format(e style, body func()) {
	inside := r.open[e.Type] > 0 || e.Type == entityCode && r.open[entityLink] > 0
	if r.flat || inside {
		body()
		return
	}
	r.flush()
	i := len(r.entities)
	e.Offset = r.at
	r.entities = append(r.entities, e)
	r.open[e.Type]++
	body()
	r.open[e.Type]--
	r.entities[i].Length = r.at - r.entities[i].Offset
}

// blocks writes blocks, with the author's own blank lines between them.
func (r *renderer) blocks(list iter.Seq[markdown.Block]) {
	first := true
	for b := range list {
		if !first {
			r.write("\n")
			if b.Blank {
				r.write("\n")
			}
		}
		first = false
		r.block(b)
	}
}

func (r *renderer) block(b markdown.Block) {
	switch n := b.Node.(type) {
	case nil: // not fit to be parsed
		r.copy(b.Start, b.End)
	case *ast.Heading:
		r.format(style{Type: entityBold}, func() { r.inlines(n) })
	case *ast.List:
		r.list(n, b.Number)
	case *ast.Blockquote:
		if r.open[entityQuote] == 0 {
			r.format(style{Type: entityQuote}, func() { r.blocks(r.doc.Children(n)) })
			return
		}
		r.indented("> ", "> ", func() { r.blocks(r.doc.Children(n)) }) // Telegram has no quotation inside another
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = strings.TrimSpace(string(n.Info.Segment.Value(r.src)))
		}
		r.pre(info, n.Lines())
	case *ast.CodeBlock:
		r.pre("", n.Lines())
	case *ast.HTMLBlock:
		lines := text.NewSegments()
		lines.AppendAll(n.Lines().Sliced(0, n.Lines().Len()))
		if n.HasClosure() {
			lines.Append(n.ClosureLine)
		}
		r.lines(lines)
	case *ast.ThematicBreak:
		r.write("———")
	case *ast.LinkReferenceDefinition:
		r.write("[" + string(n.Label) + "]: " + string(n.Destination))
		if len(n.Title) > 0 {
			r.write(" \"" + string(n.Title) + "\"")
		}
	case *extast.Table:
		r.table(n)
	default: // paragraphs and the bare text of list items
		r.inlines(n)
	}
}

// indented writes marker, then body with prefix on its further lines.
func (r *renderer) indented(marker, prefix string, body func()) {
	r.write(marker)
	outer := r.prefix
	r.prefix += prefix
	body()
	r.prefix = outer
}

func (r *renderer) list(n *ast.List, number int) {
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item != n.FirstChild() {
			r.write("\n")
			if item.HasBlankPreviousLines() {
				r.write("\n")
			}
		}
		marker := "• "
		if n.IsOrdered() {
			marker = fmt.Sprintf("%d%c ", number, n.Marker)
			number++
		}
		r.indented(marker, strings.Repeat(" ", utf8.RuneCountInString(marker)), func() { r.blocks(r.doc.Children(item)) })
	}
}

// lines writes raw source lines as they are.
func (r *renderer) lines(segs *text.Segments) {
	for i := range segs.Len() {
		seg := segs.At(i)
		r.write(strings.Repeat(" ", seg.Padding))
		if i == segs.Len()-1 {
			seg = seg.TrimRightSpace(r.src)
		}
		r.copy(seg.Start, seg.Stop)
	}
}

// pre writes a code block. Its lines get no prefix: Telegram draws the block as a box. An info
// string that cannot be a language, or has no code beneath it, is text that would be lost, and
// becomes the first line.
func (r *renderer) pre(info string, segs *text.Segments) {
	for segs.Len() > 0 {
		first := segs.At(0)
		if !util.IsBlank(first.Value(r.src)) {
			break
		}
		segs = segmentsOf(segs.Sliced(1, segs.Len()))
	}
	language := info
	if segs.Len() == 0 || strings.ContainsFunc(info, markdown.NotInLanguage) {
		language = ""
	} else {
		info = ""
	}
	if info == "" && segs.Len() == 0 {
		return
	}
	r.verbatim(language, func() {
		r.write(info)
		if info != "" && segs.Len() > 0 {
			r.write("\n")
		}
		r.lines(segs)
	})
}

// verbatim lays a pre over what body writes, from the beginning of a line and without prefixes.
func (r *renderer) verbatim(language string, body func()) {
	if r.out.Len() > 0 && !strings.HasSuffix(r.out.String(), "\n") {
		r.write("\n")
	}
	outer := r.prefix
	r.prefix, r.pending = "", false
	r.format(style{Type: entityPre, Language: language}, body)
	r.prefix = outer
}

func segmentsOf(list []text.Segment) *text.Segments {
	segs := text.NewSegments()
	segs.AppendAll(list)
	return segs
}
