package chat

import (
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// parser reads what models write: CommonMark with GitHub's tables, strikethrough, task lists and bare addresses.
var parser = goldmark.New(goldmark.WithExtensions(markdown.Tables{}, extension.Strikethrough, extension.TaskList, extension.Linkify)).Parser()

// markup is what a gateway wrote, as elements. HTML in it is text.
func markup(source string) html.Node {
	if markdown.TooLong(source) {
		return html.El("pre", html.Text(source))
	}
	doc := markdown.Read(markdown.Clean(source), parser, markdown.Bounds{})
	w := writer{doc.Source(), doc}
	return html.Group(w.blocks(doc.Blocks())...)
}

// writer makes elements of one document's nodes.
type writer struct {
	source []byte
	doc    *markdown.Document
}

func (w writer) blocks(all iter.Seq[markdown.Block]) (nodes []html.Node) {
	for b := range all {
		nodes = append(nodes, w.block(b))
	}
	return nodes
}

func (w writer) children(n ast.Node) []html.Node { return w.blocks(w.doc.Children(n)) }

func (w writer) block(b markdown.Block) html.Node {
	switch n := b.Node.(type) {
	case nil: // not fit to be parsed
		return html.El("pre", html.Text(string(w.source[b.Start:b.End])))
	case *ast.Heading: // the page has its own first two
		return html.El("h3", w.inlines(n)...)
	case *ast.List:
		return w.list(n, b.Number)
	case *ast.ListItem:
		return html.El("li", w.children(n)...)
	case *ast.Blockquote:
		return html.El("blockquote", w.children(n)...)
	case *ast.FencedCodeBlock:
		return w.code(n.Lines())
	case *ast.CodeBlock:
		return w.code(n.Lines())
	case *ast.HTMLBlock:
		lines := n.Lines().Sliced(0, n.Lines().Len())
		if n.HasClosure() {
			lines = append(lines[:len(lines):len(lines)], n.ClosureLine)
		}
		return html.El("p", html.Text(strings.TrimRight(w.lines(lines), "\n")))
	case *ast.ThematicBreak:
		return html.El("hr")
	case *ast.LinkReferenceDefinition:
		return html.El("p", html.Text("["+string(n.Label)+"]: "+string(n.Destination)))
	case *extast.Table:
		return w.table(n)
	case *ast.TextBlock: // of a list without blank lines
		return html.Group(w.inlines(n)...)
	default:
		return html.El("p", w.inlines(n)...)
	}
}

func (w writer) list(n *ast.List, number int) html.Node {
	if !n.IsOrdered() {
		return html.El("ul", w.children(n)...)
	}
	var start html.Node
	if number != 1 {
		start = html.Attr("start", strconv.Itoa(number))
	}
	return html.El("ol", append([]html.Node{start}, w.children(n)...)...)
}

func (w writer) code(segs *text.Segments) html.Node {
	return html.El("pre", html.Attr("tabindex", "0"), html.El("code", html.Text(strings.TrimRight(w.lines(segs.Sliced(0, segs.Len())), "\n"))))
}

// lines are whole lines of the source.
func (w writer) lines(segs []text.Segment) string {
	var out strings.Builder
	for _, s := range segs {
		out.WriteString(strings.Repeat(" ", s.Padding))
		out.Write(w.source[s.Start:s.Stop])
	}
	return out.String()
}

func (w writer) table(n *extast.Table) html.Node {
	var rows []html.Node
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		_, heads := r.(*extast.TableHeader)
		var cells []html.Node
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			if heads {
				cells = append(cells, html.El("th", append([]html.Node{html.Attr("scope", "col")}, w.inlines(c)...)...))
			} else {
				cells = append(cells, html.El("td", w.inlines(c)...))
			}
		}
		rows = append(rows, html.El("tr", cells...))
	}
	return html.El("div", html.Attr("class", "wide"), html.Attr("tabindex", "0"), html.Attr("role", "region"), html.Attr("aria-label", "Table"),
		html.El("table", rows...))
}

// inlines are what stands within the lines of n.
func (w writer) inlines(n ast.Node) (nodes []html.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		nodes = append(nodes, w.inline(c))
	}
	return nodes
}

func (w writer) inline(n ast.Node) html.Node {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Segment.Value(w.source))
		if !n.IsRaw() {
			value = markdown.Address([]byte(value))
		}
		if n.SoftLineBreak() || n.HardLineBreak() { // people see the lines as the model wrote them
			return html.Group(html.Text(value), html.El("br"))
		}
		return html.Text(value)
	case *ast.String:
		return html.Text(string(n.Value))
	case *ast.CodeSpan:
		return html.El("code", html.Text(strings.ReplaceAll(w.raw(n), "\n", " ")))
	case *ast.Emphasis:
		if n.Level == 1 {
			return html.El("em", w.inlines(n)...)
		}
		return html.El("strong", w.inlines(n)...)
	case *extast.Strikethrough:
		return html.El("s", w.inlines(n)...)
	case *extast.TaskCheckBox:
		if n.IsChecked {
			return html.Text("☑ ")
		}
		return html.Text("☐ ")
	case *ast.Link:
		return link(markdown.Address(n.Destination), w.inlines(n))
	case *ast.Image: // pictures of other servers are not loaded: a link leads to them
		return link(markdown.Address(n.Destination), w.inlines(n))
	case *ast.AutoLink:
		address := string(n.URL(w.source))
		if n.AutoLinkType == ast.AutoLinkEmail {
			address = "mailto:" + address
		}
		return link(address, []html.Node{html.Text(string(n.Label(w.source)))})
	case *ast.RawHTML:
		return html.Text(string(n.Segments.Value(w.source)))
	default:
		return html.Group(w.inlines(n)...)
	}
}

// raw is the text of a code span.
func (w writer) raw(n ast.Node) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			out.Write(t.Segment.Value(w.source))
		}
	}
	return out.String()
}

// link is a label that leads to an address, or, where that is none to be followed, with the address behind it.
func link(address string, label []html.Node) html.Node {
	u, err := url.Parse(address)
	if err != nil || !(u.Scheme == "mailto" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "") {
		return html.Group(html.Group(label...), html.Text(" ("+address+")"))
	}
	if len(label) == 0 {
		label = []html.Node{html.Text(address)}
	}
	return html.El("a", append([]html.Node{html.Attr("href", address), html.Attr("target", "_blank"), html.Attr("rel", "noopener noreferrer nofollow")}, label...)...)
}
