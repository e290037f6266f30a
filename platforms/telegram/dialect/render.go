// Package dialect turns the CommonMark that models write into text and formats, as Telegram accepts them, and cuts it
// into messages. It is pure.
package dialect

import (
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// form is Telegram's dialect: plain text, with formats laid over it. Models write CommonMark with GitHub's tables,
// strikethrough, bare links and task lists.
var form = markdown.Form{
	Parser: goldmark.New(goldmark.WithExtensions(
		markdown.Tables{}, extension.Strikethrough, extension.Linkify, extension.TaskList, spoilers{},
	)).Parser(),
	Length: Units,
	Marker: func(list *ast.List, number int) string {
		if list.IsOrdered() {
			return fmt.Sprintf("%d%c ", number, list.Marker)
		}
		return "• "
	},
}

// Render turns clean markdown into text and entities. Text that is not markdown, or would come out empty, stays as it
// is.
func Render(source string) Rich { return renderWithin(source, markdown.Bounds{}) }

// renderWithin is Render in pieces within b.
func renderWithin(source string, b markdown.Bounds) Rich {
	r := renderer{Writer: markdown.NewWriter(source, &form, b), open: make(map[string]int)}
	out := r.Document(&r)
	if strings.TrimSpace(out) == "" {
		return Plain(source)
	}
	return Rich{text: out, entities: tidy(Encode(out), r.entities), marks: r.Marks}
}

// Plain returns markdown as text without formats.
func Plain(source string) Rich {
	return Rich{text: source, marks: []markdown.Mark{{End: len(source)}}}
}

// renderer is the markdown.Dialect of one document.
type renderer struct {
	*markdown.Writer

	open     map[string]int // the formats around the current text, by type
	entities []Style        // in tree order; tidied at the end
}

// format lays e over what body writes, unless a format around it forbids that.
func (r *renderer) format(e Style, body func()) {
	if r.open[e.Type] > 0 || e.Type == entityCode && r.open[entityLink] > 0 {
		body()
		return
	}
	r.Flush()
	i := len(r.entities)
	e.Offset = r.At
	r.entities = append(r.entities, e)
	r.open[e.Type]++
	body()
	r.open[e.Type]--
	r.entities[i].Length = r.At - r.entities[i].Offset
}

func (r *renderer) Heading(n *ast.Heading) {
	r.format(Style{Type: entityBold}, func() { r.Inlines(n) })
}

// Quote implements markdown.Dialect. Telegram has no quotation inside another.
func (r *renderer) Quote(body func()) {
	if r.open[entityQuote] == 0 {
		r.format(Style{Type: entityQuote}, body)
		return
	}
	r.Indented("> ", "> ", body)
}

// Code implements markdown.Dialect. Its lines get no prefix: Telegram draws the block as a box.
func (r *renderer) Code(language string, body func()) {
	r.Verbatim("", func() { r.format(Style{Type: entityPre, Language: language}, body) })
}
