package chat

import (
	"html/template"
	"iter"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// parser reads what models write: CommonMark with GitHub's tables, strikethrough, task lists and bare addresses.
var parser = goldmark.New(goldmark.WithExtensions(markdown.Tables{}, extension.Strikethrough, extension.TaskList, extension.Linkify)).Parser()

// markup renders a gateway's text as elements. HTML in the text is shown as text.
func markup(source string) template.HTML {
	if markdown.TooLong(source) {
		return templates.HTML("plain", source)
	}
	doc := markdown.Read(markdown.Clean(source), parser, markdown.Bounds{})
	w := writer{doc.Source(), doc}
	return w.blocks(doc.Blocks())
}

// writer renders the nodes of one document, each by a template.
type writer struct {
	source []byte
	doc    *markdown.Document
}

func (w writer) blocks(all iter.Seq[markdown.Block]) template.HTML {
	var out strings.Builder
	for b := range all {
		out.WriteString(string(w.block(b)))
	}
	return template.HTML(out.String())
}

func (w writer) children(n ast.Node) template.HTML { return w.blocks(w.doc.Children(n)) }

func (w writer) block(b markdown.Block) template.HTML {
	switch n := b.Node.(type) {
	case nil: // not fit to be parsed
		return templates.HTML("plain", string(w.source[b.Start:b.End]))
	case *ast.Heading: // every level is an <h3>: the page's own headings are the first two levels
		return templates.HTML("heading", w.inlines(n))
	case *ast.List:
		if !n.IsOrdered() {
			return templates.HTML("bullets", w.children(n))
		}
		return templates.HTML("numbered", struct {
			From  int
			Items template.HTML
		}{b.Number, w.children(n)})
	case *ast.ListItem:
		return templates.HTML("item", w.children(n))
	case *ast.Blockquote:
		return templates.HTML("quotation", w.children(n))
	case *ast.FencedCodeBlock:
		return templates.HTML("block of code", w.lines(n.Lines().Sliced(0, n.Lines().Len())))
	case *ast.CodeBlock:
		return templates.HTML("block of code", w.lines(n.Lines().Sliced(0, n.Lines().Len())))
	case *ast.HTMLBlock:
		lines := n.Lines().Sliced(0, n.Lines().Len())
		if n.HasClosure() {
			lines = append(lines[:len(lines):len(lines)], n.ClosureLine)
		}
		return templates.HTML("paragraph", w.lines(lines))
	case *ast.ThematicBreak:
		return templates.HTML("rule", nil)
	case *ast.LinkReferenceDefinition:
		return templates.HTML("paragraph", "["+string(n.Label)+"]: "+string(n.Destination))
	case *extast.Table:
		return w.table(n)
	case *ast.TextBlock: // of a list without blank lines
		return w.inlines(n)
	default:
		return templates.HTML("paragraph", w.inlines(n))
	}
}

// lines returns whole lines of the source, without the last one's end.
func (w writer) lines(segs []text.Segment) string {
	var out strings.Builder
	for _, s := range segs {
		out.WriteString(strings.Repeat(" ", s.Padding))
		out.Write(w.source[s.Start:s.Stop])
	}
	return strings.TrimRight(out.String(), "\n")
}

func (w writer) table(n *extast.Table) template.HTML {
	var rows strings.Builder
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		kind := "cell"
		if _, heads := r.(*extast.TableHeader); heads {
			kind = "head"
		}
		var cells strings.Builder
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cells.WriteString(string(templates.HTML(kind, w.inlines(c))))
		}
		rows.WriteString(string(templates.HTML("row", template.HTML(cells.String()))))
	}
	return templates.HTML("table", template.HTML(rows.String()))
}

// inlines renders the inline nodes of n.
func (w writer) inlines(n ast.Node) template.HTML {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		out.WriteString(string(w.inline(c)))
	}
	return template.HTML(out.String())
}

func (w writer) inline(n ast.Node) template.HTML {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Segment.Value(w.source))
		if !n.IsRaw() {
			value = markdown.Address([]byte(value))
		}
		if n.SoftLineBreak() || n.HardLineBreak() { // people see the lines as the model wrote them
			return templates.HTML("line", value)
		}
		return templates.HTML("text", value)
	case *ast.String:
		return templates.HTML("text", string(n.Value))
	case *ast.CodeSpan:
		return templates.HTML("code", strings.ReplaceAll(w.raw(n), "\n", " "))
	case *ast.Emphasis:
		if n.Level == 1 {
			return templates.HTML("emphasis", w.inlines(n))
		}
		return templates.HTML("strong", w.inlines(n))
	case *extast.Strikethrough:
		return templates.HTML("struck", w.inlines(n))
	case *extast.TaskCheckBox:
		if n.IsChecked {
			return "☑ "
		}
		return "☐ "
	case *ast.Link:
		return link(markdown.Address(n.Destination), w.inlines(n))
	case *ast.Image: // pictures of other servers are not loaded: a link leads to them
		return link(markdown.Address(n.Destination), w.inlines(n))
	case *ast.AutoLink:
		address := string(n.URL(w.source))
		if n.AutoLinkType == ast.AutoLinkEmail {
			address = "mailto:" + address
		}
		return link(address, templates.HTML("text", string(n.Label(w.source))))
	case *ast.RawHTML:
		return templates.HTML("text", string(n.Segments.Value(w.source)))
	default:
		return w.inlines(n)
	}
}

// raw returns the text of a code span.
func (w writer) raw(n ast.Node) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			out.Write(t.Segment.Value(w.source))
		}
	}
	return out.String()
}

// link renders a label that leads to an address. If the address must not become a link, it follows the label as text.
func link(address string, label template.HTML) template.HTML {
	u, err := url.Parse(address)
	if err != nil || !(u.Scheme == "mailto" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "") {
		return label + templates.HTML("text", " ("+address+")")
	}
	if label == "" {
		label = templates.HTML("text", address)
	}
	return templates.HTML("link", struct {
		Address string
		Label   template.HTML
	}{address, label})
}
