package dialect

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// Inlines implements markdown.Dialect: it writes the children of n, which stand within lines.
func (r *renderer) Inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.inline(c)
	}
}

// inline writes one node of a line, with the nodes within it.
func (r *renderer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		if n.IsRaw() {
			r.Copy(n.Segment.Start, n.Segment.Stop)
		} else {
			r.unescape(n.Segment.Start, n.Segment.Stop)
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			r.Write("\n")
		}
	case *ast.String:
		r.Write(string(n.Value))
	case *ast.CodeSpan:
		r.format(Style{Type: entityCode}, func() { r.codeSpan(n) })
	case *ast.Emphasis:
		kind := entityItalic
		if n.Level > 1 {
			kind = entityBold
		}
		r.format(Style{Type: kind}, func() { r.Inlines(n) })
	case *extast.Strikethrough:
		r.format(Style{Type: entityStrike}, func() { r.Inlines(n) })
	case *spoiler:
		r.format(Style{Type: entitySpoiler}, func() { r.Inlines(n) })
	case *ast.Link:
		r.link(n, n.Destination)
	case *ast.Image:
		r.link(n, n.Destination)
	case *ast.AutoLink: // Telegram makes the link by itself
		r.Write(string(n.Label(r.Source)))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			r.Copy(n.Segments.At(i).Start, n.Segments.At(i).Stop)
		}
	case *extast.TaskCheckBox:
		box := "☐ "
		if n.IsChecked {
			box = "☑ "
		}
		r.Write(box)
	default:
		r.Inlines(n)
	}
}

// codeSpan writes code as it is, with blanks in place of line ends.
func (r *renderer) codeSpan(n *ast.CodeSpan) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, ok := c.(*ast.Text)
		if !ok {
			continue
		}
		code := t.Segment
		line := bytes.TrimSuffix(r.Source[code.Start:code.Stop], []byte("\n"))
		r.Copy(code.Start, code.Start+len(line))
		if len(line) < code.Len() {
			r.Write(" ")
		}
	}
}

// link writes a link or an image: as a format if Telegram accepts it, else with its target behind it in parentheses.
func (r *renderer) link(n ast.Node, destination []byte) {
	target := string(util.URLEscape(destination, true))
	before := len(r.Text())
	label := func() {
		r.Inlines(n)
		if strings.TrimSpace(r.Text()[before:]) == "" {
			r.Write(shown(destination))
		}
	}
	if linkable(target) {
		r.Flush()
		before = len(r.Text())
		r.format(Style{Type: entityLink, URL: target}, label)
		return
	}
	label()
	if s := shown(destination); s != "" && s != strings.TrimSpace(r.Text()[before:]) {
		r.Write(" (" + s + ")")
	}
}

// shown returns a link target as people read it. A mail address goes without its scheme: Telegram finds the address in
// the text, and would take a mailto link for a web address.
func shown(destination []byte) string {
	return strings.TrimPrefix(markdown.Address(destination), "mailto:")
}

// linkable reports whether Telegram accepts target for a text_link: only web links, whose host has a dot, and tg links.
// For one bad link it refuses the whole message.
func linkable(target string) bool {
	u, err := url.Parse(target)
	if err != nil || len(target) > 2048 || u.Host == "" {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		host := u.Hostname()
		return strings.Contains(strings.Trim(host, "."), ".") || strings.Contains(host, ":")
	case "tg":
		return u.Port() == "" && u.User == nil && !strings.ContainsFunc(u.Host, func(c rune) bool {
			return c > 0x7e || !util.IsAlphaNumeric(byte(c)) && c != '-' && c != '_'
		})
	}
	return false
}

// unescape writes source text with backslash escapes and character references resolved.
func (r *renderer) unescape(start, end int) {
	from := start
	for i := start; i < end; {
		plain, size := markdown.EscapeAt(r.Source[i:end])
		if size == 0 {
			i++
			continue
		}
		r.Copy(from, i)
		r.Flush()
		r.Mark(i, i+size)
		r.Write(plain)
		i += size
		from = i
	}
	r.Copy(from, end)
}

// spoilers extends CommonMark with ||hidden text||, as gateways write it for Telegram.
type spoilers struct{}

func (spoilers) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(parser.WithInlineParsers(util.Prioritized(spoilerParser{}, 500)))
}

// spoiler is a node of hidden text.
type spoiler struct{ ast.BaseInline }

var kindSpoiler = ast.NewNodeKind("Spoiler")

func (*spoiler) Kind() ast.NodeKind { return kindSpoiler }

func (n *spoiler) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// spoilerParser finds the bars around hidden text. It follows the rules of emphasis, so "a || b" is not a spoiler.
type spoilerParser struct{}

func (spoilerParser) Trigger() []byte { return []byte{'|'} }

func (p spoilerParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	node := parser.ScanDelimiter(line, before, 2, p)
	if node == nil || node.OriginalLength != 2 || before == '|' {
		return nil
	}
	node.Segment = segment.WithStop(segment.Start + node.OriginalLength)
	block.Advance(node.OriginalLength)
	pc.PushDelimiter(node)
	return node
}

func (spoilerParser) IsDelimiter(b byte) bool { return b == '|' }

func (spoilerParser) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (spoilerParser) OnMatch(int) ast.Node { return &spoiler{} }
