// Package dialect turns the CommonMark that models write into Discord's dialect, and cuts it into messages. It is pure.
package dialect

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// quoteMark begins a quoted line. Discord insists on the blank.
const quoteMark = "> "

// form is Discord's dialect, which is close to CommonMark. The parser is made for the markdown that models write:
// CommonMark with GitHub's tables, strikethrough and task lists. It never changes and may be used from any goroutine.
var form = markdown.Form{
	Parser: goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(parser.DefaultBlockParsers()...),
			parser.WithInlineParsers(inlineParsers()...),
			parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		)),
		goldmark.WithExtensions(markdown.Tables{}, extension.Strikethrough, extension.TaskList),
	).Parser(),
	Length: utf8.RuneCountInString,
	Marker: func(list *ast.List, number int) string {
		if list.IsOrdered() {
			return fmt.Sprintf("%d. ", number)
		}
		return "- "
	},
	Blank: func(prefix string) string { // of a line's prefix, what keeps a quotation together
		if i := strings.LastIndex(prefix, quoteMark); i >= 0 {
			return prefix[:i+len(quoteMark)]
		}
		return ""
	},
	Escape: func(s string, code bool) string {
		if code {
			return withoutFences(s, "")
		}
		return withoutFences(s, `\`)
	},
}

// Clean prepares source for the parser and for Discord: it is markdown.Clean, and replaces NUL characters as well.
func Clean(source string) string {
	return strings.ReplaceAll(markdown.Clean(source), "\x00", "\uFFFD")
}

// Render turns CommonMark into Discord's dialect. It does not touch text that Discord shows as meant, including
// mentions and Discord's own markup. It rewrites markup that Discord would show as plain characters (tables, images,
// reference links, deep headings, rules, task lists, indented code) or misread (fences, quotations, character
// references). No words are lost: a source that would show nothing is returned as it is. The argument must be clean.
func Render(source string) string { return renderWithin(source, markdown.Bounds{}) }

// renderWithin is Render, but parses no more of source at once than b allows.
func renderWithin(source string, b markdown.Bounds) string {
	r := renderer{markdown.NewWriter(source, &form, b)}
	if out := r.Document(r); strings.TrimSpace(out) != "" {
		return out
	}
	return source
}

// renderer is the markdown.Dialect of one document.
type renderer struct{ *markdown.Writer }

func (r renderer) Inlines(n ast.Node) { r.Write(r.inlines(n)) }

func (r renderer) Quote(body func()) {
	if r.Begins() {
		r.Indented("", quoteMark, body)
	} else {
		r.Indented(quoteMark, quoteMark, body)
	}
}

// Code implements markdown.Dialect: between fences, at the beginning of a line, in lists without indentation,
// which Discord would show, and in quotations with one mark, because it knows only one level.
func (r renderer) Code(language string, body func()) {
	prefix := ""
	if strings.Contains(r.Prefix(), quoteMark) {
		prefix = quoteMark
	}
	r.Verbatim(prefix, func() {
		r.Write("```" + language + "\n")
		body()
		r.Write("\n```")
	})
}

// Heading implements markdown.Dialect. Discord has three levels; the others are bold, or underlined where
// something within them is bold already.
func (r renderer) Heading(n *ast.Heading) {
	words := strings.TrimSpace(strings.ReplaceAll(r.inlines(n), "\n", " "))
	switch {
	case words == "" || n.Level <= 3:
		r.Write(strings.TrimSpace(strings.Repeat("#", n.Level) + " " + words))
	case !strings.Contains(words, "**") && !strings.HasSuffix(words, `\`) && !strings.HasPrefix(words, "*") && !strings.HasSuffix(words, "*"):
		r.Write("**" + words + "**")
	case strings.HasPrefix(words, "**") && strings.HasSuffix(words, "**") || strings.Contains(words, "_") || strings.HasSuffix(words, `\`):
		r.Write(words)
	default:
		r.Write("__" + words + "__")
	}
}

// longTicks are the runs of backticks that Discord takes for a fence, wherever they stand.
var longTicks = regexp.MustCompile("`{3,}")

// withoutFences returns s without anything that Discord could take for a fence: each backtick of a long run is escaped
// with mark. In code, where Discord ignores escapes, mark is empty, and invisible blanks divide the run into pairs.
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
