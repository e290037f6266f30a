package discord

import (
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

const (
	// quoteMark begins a quoted line. Discord insists on the blank.
	quoteMark = "> "
	// rule stands for a thematic break, which Discord does not know.
	rule = "———"
	// maxLanguage is the longest name of a language behind a fence, in bytes.
	maxLanguage = 40
)

// commonMark parses what models write: CommonMark with GitHub's tables, strikethrough and task
// lists. It is never changed and may be used from any goroutine.
var commonMark = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(inlineParsers()...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
	)),
	goldmark.WithExtensions(markdown.Tables{}, extension.Strikethrough, extension.TaskList),
).Parser()

// clean makes any string something that can be parsed and sent: valid UTF-8, one sort of line end,
// no NUL.
func clean(source string) string {
	source = strings.ToValidUTF8(source, "\uFFFD")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(source)
}

// render turns CommonMark into the dialect of Discord, which is close: what Discord shows as meant
// stays to the letter, mentions and Discord's own markup included. Rewritten is what it would show
// as bare markup (tables, images, reference links, deep headings, rules, task lists, indented code)
// or would understand otherwise (fences, quotations, character references). Nothing that was said
// is lost. The argument must be clean.
func render(source string) string { return renderWithin(source, markdown.Bounds{}) }

// renderWithin is render with no more of source parsed at once than b allows.
func renderWithin(source string, b markdown.Bounds) string {
	doc := markdown.Read(source, commonMark, b)
	r := renderer{doc: doc, src: doc.Source(), pending: true}
	r.blocks(doc.Blocks())
	if out := r.out.String(); strings.TrimSpace(out) != "" {
		return out
	}
	return source
}

// renderer walks one document.
type renderer struct {
	// Set once.
	doc *markdown.Document
	src []byte

	out     strings.Builder
	prefix  string // of every line: marks of quotations, indentation of lists
	pending bool   // prefix is due before the next thing on this line
}

// write appends s; lines after the first get the prefix, blank ones only as much of it as keeps a
// quotation together.
func (r *renderer) write(s string) {
	for {
		line, rest, more := strings.Cut(s, "\n")
		if line != "" {
			r.flush(r.prefix)
			r.out.WriteString(line)
		}
		if !more {
			return
		}
		r.flush(r.quotation())
		r.out.WriteString("\n")
		r.pending = true
		s = rest
	}
}

// quotation is the prefix up to its last quotation mark.
func (r *renderer) quotation() string {
	if i := strings.LastIndex(r.prefix, quoteMark); i >= 0 {
		return r.prefix[:i+len(quoteMark)]
	}
	return ""
}

// flush writes the prefix that is due.
func (r *renderer) flush(prefix string) {
	if r.pending {
		r.pending = false
		r.out.WriteString(prefix)
	}
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
		r.write(withoutFences(string(r.src[b.Start:b.End]), `\`))
	case *ast.Heading:
		r.heading(n)
	case *ast.List:
		r.list(n, b.Number)
	case *ast.Blockquote:
		if r.pending {
			r.indented("", quoteMark, func() { r.blocks(r.doc.Children(n)) })
		} else {
			r.indented(quoteMark, quoteMark, func() { r.blocks(r.doc.Children(n)) })
		}
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = strings.TrimSpace(string(n.Info.Segment.Value(r.src)))
		}
		r.pre(info, r.lines(n.Lines()))
	case *ast.CodeBlock:
		r.pre("", r.lines(n.Lines()))
	case *ast.HTMLBlock:
		html := r.lines(n.Lines())
		if n.HasClosure() {
			html += string(n.ClosureLine.Value(r.src))
		}
		r.write(withoutFences(strings.TrimRight(html, " \t\n"), `\`))
	case *ast.ThematicBreak:
		r.write(rule)
	case *ast.LinkReferenceDefinition:
		r.write("[" + string(n.Label) + "]: " + string(n.Destination))
		if len(n.Title) > 0 {
			r.write(" \"" + string(n.Title) + "\"")
		}
	case *extast.Table:
		r.table(n)
	default: // paragraphs and the bare text of list items
		r.write(r.inlines(n))
	}
}

// heading writes a heading. Discord has three levels; the others are bold, or underlined where
// something within them is bold already.
func (r *renderer) heading(n *ast.Heading) {
	words := strings.TrimSpace(strings.ReplaceAll(r.inlines(n), "\n", " "))
	switch {
	case words == "" || n.Level <= 3:
		r.write(strings.TrimSpace(strings.Repeat("#", n.Level) + " " + words))
	case !strings.Contains(words, "**") && !strings.HasSuffix(words, `\`) && !strings.HasPrefix(words, "*") && !strings.HasSuffix(words, "*"):
		r.write("**" + words + "**")
	case strings.HasPrefix(words, "**") && strings.HasSuffix(words, "**") || strings.Contains(words, "_") || strings.HasSuffix(words, `\`):
		r.write(words)
	default:
		r.write("__" + words + "__")
	}
}

// indented writes marker, then body with prefix on its lines.
func (r *renderer) indented(marker, prefix string, body func()) {
	r.write(marker)
	outer := r.prefix
	r.prefix += prefix
	body()
	r.prefix = outer
}

// list writes a list with the marks Discord knows.
func (r *renderer) list(n *ast.List, number int) {
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item != n.FirstChild() {
			r.write("\n")
			if item.HasBlankPreviousLines() {
				r.write("\n")
			}
		}
		marker := "- "
		if n.IsOrdered() {
			marker = fmt.Sprintf("%d. ", number)
			number++
		}
		r.indented(marker, strings.Repeat(" ", len(marker)), func() { r.blocks(r.doc.Children(item)) })
	}
}

// lines are raw source lines as they are.
func (r *renderer) lines(segs *text.Segments) string {
	var out strings.Builder
	for i := range segs.Len() {
		seg := segs.At(i)
		out.Write(seg.Value(r.src))
	}
	return out.String()
}

// pre writes a code block. An info string that cannot be a language, or has no code beneath it, is
// text that would be lost, and becomes the first line.
func (r *renderer) pre(info, code string) {
	for {
		line, rest, more := strings.Cut(code, "\n")
		if !more || strings.TrimSpace(line) != "" {
			break
		}
		code = rest
	}
	code = strings.TrimRight(code, " \t\n")
	language := info
	if code == "" || len(info) > maxLanguage || strings.ContainsFunc(info, markdown.NotInLanguage) {
		language, code = "", strings.TrimRight(info+"\n"+code, "\n")
		if info == "" {
			code = strings.TrimPrefix(code, "\n")
		}
	}
	if code != "" {
		r.verbatim(language, code)
	}
}

// verbatim writes code between fences, at the beginning of a line: in lists without indentation,
// which Discord would show, and in quotations with one mark, because it knows only one level.
func (r *renderer) verbatim(language, code string) {
	if !r.pending {
		r.write("\n")
	}
	outer := r.prefix
	r.prefix = ""
	if strings.Contains(outer, quoteMark) {
		r.prefix = quoteMark
	}
	r.write("```" + language + "\n" + withoutFences(code, "") + "\n```")
	r.prefix = outer
}

// longTicks are the runs of backticks that Discord takes for a fence, wherever they stand.
var longTicks = regexp.MustCompile("`{3,}")

// withoutFences is s without anything Discord could take for a fence: each backtick of a long run
// is escaped with mark or, where escapes do not count, an invisible blank stands in every run.
func withoutFences(s, mark string) string {
	return longTicks.ReplaceAllStringFunc(s, func(run string) string {
		var out strings.Builder
		for i := range run {
			out.WriteString(mark)
			if mark == "" && i > 0 && i%2 == 0 {
				out.WriteString("\u200B")
			}
			out.WriteByte('`')
		}
		return out.String()
	})
}
