// Package dialect turns the CommonMark that models write into the two forms of a Matrix message: the text as written,
// and HTML with the few tags that clients accept. It cuts long texts into messages. It is pure.
package dialect

import (
	"bytes"
	"html"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// maxDepth is how deep elements may nest. Clients need not show more than a hundred levels (client-server API,
// m.room.message).
const maxDepth = 90

// form writes CommonMark with GitHub's tables, strikethrough, bare links and task lists. Markup for which Matrix has no
// tag, or that clients drop for safety (raw HTML, pictures of the web, addresses of strange schemes), becomes text or a
// link.
var form = goldmark.New(
	goldmark.WithExtensions(
		markdown.Tables{}, extension.Strikethrough, extension.Linkify, extension.TaskList,
	),
	goldmark.WithRendererOptions(
		gmhtml.WithHardWraps(), gmhtml.WithXHTML(),
		renderer.WithNodeRenderers(
			util.Prioritized(writer{}, 100),
			util.Prioritized(extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), 100),
		),
	),
)

// HTML returns the formatted body of a clean text; empty if it would show no more than the text itself, or if its
// elements nest deeper than maxDepth.
func HTML(source string) string {
	src := []byte(source)
	doc := form.Parser().Parse(text.NewReader(src))
	if depth(doc) > maxDepth {
		return ""
	}
	var out bytes.Buffer
	if err := form.Renderer().Render(&out, src, doc); err != nil { // cannot happen: a buffer accepts everything
		return ""
	}
	body := strings.TrimSpace(out.String())
	if inner, one := strings.CutPrefix(body, "<p>"); one && strings.Count(body, "<p>") == 1 && strings.HasSuffix(body, "</p>") {
		body = strings.TrimSuffix(inner, "</p>")
	}
	bare := strings.ReplaceAll(strings.ReplaceAll(body, "<br />\n", "\n"), "</p>\n<p>", "\n\n")
	if body == "" || html.UnescapeString(strings.NewReplacer("<p>", "", "</p>", "").Replace(bare)) == source {
		return ""
	}
	return body
}

// depth returns how deep n's children nest.
func depth(n ast.Node) int {
	deepest, now := 0, 0
	_ = ast.Walk(n, func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			now++
			deepest = max(deepest, now)
		} else {
			now--
		}
		return ast.WalkContinue, nil
	})
	return deepest
}

// writer writes the nodes that look different in Matrix.
type writer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (w writer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, w.rawHTML)
	r.Register(ast.KindHTMLBlock, w.htmlBlock)
	r.Register(ast.KindLink, w.link)
	r.Register(ast.KindImage, w.image)
	r.Register(ast.KindAutoLink, w.autoLink)
	r.Register(extast.KindTaskCheckBox, w.checkBox)
}

func (writer) rawHTML(out util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = out.WriteString(html.EscapeString(string(n.(*ast.RawHTML).Segments.Value(src))))
	}
	return ast.WalkSkipChildren, nil
}

func (writer) htmlBlock(out util.BufWriter, src []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.HTMLBlock)
	said := n.Lines().Value(src)
	if n.HasClosure() {
		said = append(said, n.ClosureLine.Value(src)...)
	}
	words := html.EscapeString(strings.TrimRight(string(said), "\n"))
	_, _ = out.WriteString("<p>" + strings.ReplaceAll(words, "\n", "<br />\n") + "</p>\n")
	return ast.WalkContinue, nil
}

func (writer) link(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	anchor(out, node.(*ast.Link).Destination, entering)
	return ast.WalkContinue, nil
}

// image writes a picture as a link: clients show pictures of Matrix's own media only.
func (writer) image(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Image)
	anchor(out, n.Destination, entering)
	if entering && n.FirstChild() == nil {
		_, _ = out.WriteString(html.EscapeString(markdown.Address(n.Destination)))
	}
	return ast.WalkContinue, nil
}

// anchor opens or closes a link. If clients would drop its target, it writes the address behind the link's words
// instead.
func anchor(out util.BufWriter, destination []byte, opens bool) {
	target := string(util.URLEscape(destination, true))
	switch link := linkable(target); {
	case link && opens:
		_, _ = out.WriteString(`<a href="` + html.EscapeString(target) + `">`)
	case link:
		_, _ = out.WriteString("</a>")
	case !opens && len(destination) > 0:
		_, _ = out.WriteString(" (" + html.EscapeString(markdown.Address(destination)) + ")")
	}
}

func (writer) autoLink(out util.BufWriter, src []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.AutoLink)
	label, target := html.EscapeString(string(n.Label(src))), string(util.URLEscape(n.URL(src), false))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(target), "mailto:") {
		target = "mailto:" + target
	}
	if linkable(target) {
		label = `<a href="` + html.EscapeString(target) + `">` + label + "</a>"
	}
	_, _ = out.WriteString(label)
	return ast.WalkSkipChildren, nil
}

func (writer) checkBox(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = out.WriteString(markdown.Box(node.(*extast.TaskCheckBox)))
	}
	return ast.WalkContinue, nil
}

// linkable reports whether clients keep a link to target (client-server API, m.room.message: the schemes of an a).
func linkable(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "ftp":
		return u.Host != ""
	case "mailto", "magnet":
		return true
	}
	return false
}
