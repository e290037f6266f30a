package dialect

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// edit replaces the bytes of the source from offset from up to offset to by with.
type edit struct {
	from, to int
	with     string
}

// inlines renders the inline nodes of n: the source, except where Discord would show something else.
func (r renderer) inlines(n ast.Node) string {
	e := editor{src: r.Source}
	e.children(n)
	slices.SortStableFunc(e.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	at, edits := 0, e.edits
	for i := range n.Lines().Len() {
		seg := n.Lines().At(i)
		at = max(at, seg.Start)
		for len(edits) > 0 && edits[0].from < seg.Stop {
			out.Write(r.Source[at:max(edits[0].from, at)])
			out.WriteString(edits[0].with)
			at = max(edits[0].to, at)
			edits = edits[1:]
		}
		if at < seg.Stop {
			out.Write(r.Source[at:seg.Stop])
			at = seg.Stop
		}
	}
	for _, left := range edits { // at the very end
		out.WriteString(left.with)
	}
	return strings.TrimRightFunc(out.String(), unicode.IsSpace)
}

// editor collects the edits of one block. They do not overlap.
type editor struct {
	src   []byte
	edits []edit
	// label is set inside a link's label, where no other link can be: the addresses of links and
	// images there are collected in more.
	label bool
	more  []string
}

func (e *editor) replace(from, to int, with string) {
	e.edits = append(e.edits, edit{from, to, with})
}

func (e *editor) children(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		e.node(c)
	}
}

// node adds the edits of n and of the nodes within n.
func (e *editor) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		if n.IsRaw() {
			return
		}
		e.text(n.Segment.Start, n.Segment.Stop)
		if at := n.Segment.Stop; n.HardLineBreak() && at+1 < len(e.src) && e.src[at] == '\\' {
			e.replace(at, at+1, "")
		}
	case *ast.Link:
		e.link(n, n.Destination, n.Title, n.Reference != nil, 1)
	case *ast.Image:
		e.link(n, n.Destination, n.Title, n.Reference != nil, 2)
	case *extast.TaskCheckBox:
		box := "☐"
		if n.IsChecked {
			box = "☑"
		}
		e.replace(n.Pos(), n.Pos()+len("[ ]"), box)
	case *ast.CodeSpan, *ast.RawHTML, *ast.AutoLink:
	default:
		e.children(n)
	}
}

// link rewrites a link or an image (open is the length of its opening bracket): an image becomes a link, a
// reference gets its address, and where Discord makes no link the address follows the label in parentheses.
func (e *editor) link(n ast.Node, destination, title []byte, reference bool, open int) {
	begin := n.Pos()
	label, end := placeOfLink(n)
	target, address := addressOf(destination)
	switch {
	case !visible(n, e.src) && !e.label:
		words := strings.TrimSpace(strings.Trim(address, "<>") + spoken(title))
		for _, inner := range addressesIn(n) {
			words += " (" + inner + ")"
		}
		e.replace(begin, end, words)
	case e.label:
		e.more = append(e.more, inWords(destination, title))
		e.replace(begin, begin+open, "")
		e.replace(label, end, "")
		e.children(n)
	case !linkable(target):
		e.replace(begin, begin+open, "")
		shown := strings.TrimPrefix(address, "mailto:")
		if shown == string(e.src[begin+open:label]) {
			shown = ""
		}
		if shown = strings.TrimSpace(shown + spoken(title)); shown != "" {
			shown = " (" + shown + ")"
		}
		e.replace(label, end, shown)
		e.children(n)
	default:
		e.replace(begin, begin+open, "[")
		if reference {
			e.replace(label, end, "]("+strings.NewReplacer("(", "%28", ")", "%29").Replace(target)+titleOf(title)+")")
		}
		e.label = true
		e.children(n)
		e.label = false
		for _, address := range e.more {
			e.replace(end, end, " ("+address+")")
		}
		e.more = nil
	}
}

// addressOf returns a destination as a link's target, and as people read it: in the brackets that keep Discord from
// showing a preview.
func addressOf(destination []byte) (target, shown string) {
	target = string(util.URLEscape(destination, true))
	if linkable(target) {
		return target, "<" + target + ">"
	}
	return target, markdown.Address(destination)
}

// addressesIn returns the addresses of the links and images within n, as people read them.
func addressesIn(n ast.Node) (shown []string) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Image:
			shown = append(shown, inWords(c.Destination, c.Title))
		case *ast.Link:
			shown = append(shown, inWords(c.Destination, c.Title))
		}
		shown = append(shown, addressesIn(c)...)
	}
	return shown
}

// inWords returns a destination and a title as people read them.
func inWords(destination, title []byte) string {
	_, address := addressOf(destination)
	return strings.TrimSpace(address + spoken(title))
}

// titleOf returns a link's title in quotation marks, with a blank before them; empty if there is none.
func titleOf(title []byte) string {
	if len(title) == 0 {
		return ""
	}
	return ` "` + strings.NewReplacer(`"`, "'", "\n", " ").Replace(string(title)) + `"`
}

// spoken returns titleOf in the form for plain text, which has the title if no link shows it.
func spoken(title []byte) string { return withoutFences(titleOf(title), `\`) }

// visible reports whether anything within n can be seen.
func visible(n ast.Node, src []byte) bool {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			if !util.IsBlank(c.Segment.Value(src)) {
				return true
			}
		case *ast.RawHTML, *ast.AutoLink:
			return true
		default:
			if visible(c, src) {
				return true
			}
		}
	}
	return false
}

// linkable reports whether Discord makes a link of target.
func linkable(target string) bool {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "discord":
		return true
	}
	return false
}

// text edits plain text: it decodes character references, and escapes fences and spoilers that only Discord recognises.
func (e *editor) text(start, end int) {
	for i := start; i < end; {
		s := e.src[i:end]
		switch {
		case s[0] == '\\' && len(s) > 1:
			i += 2
		case s[0] == '&':
			plain, size := markdown.EscapeAt(s)
			if size > 0 {
				e.replace(i, i+size, escaped(plain))
			}
			i += max(size, 1)
		case s[0] == '`':
			n := len(s) - len(strings.TrimLeft(string(s), "`"))
			if n >= 3 {
				e.replace(i, i+n, strings.Repeat("\\`", n))
			}
			i += n
		case s[0] == '|' && len(s) > 1 && s[1] == '|':
			n := len(s) - len(strings.TrimLeft(string(s), "|"))
			blankBefore := i == 0 || unicode.IsSpace(rune(e.src[i-1]))
			blankBehind := i+n >= len(e.src) || unicode.IsSpace(rune(e.src[i+n]))
			if blankBefore && blankBehind {
				e.replace(i, i+n, strings.Repeat(`\|`, n))
			}
			i += n
		default:
			i++
		}
	}
}

// escaped returns s, which is not markup, in a form that Discord shows literally.
func escaped(s string) string {
	if len(s) == 1 && util.IsPunct(s[0]) {
		return `\` + s
	}
	return s
}

// inlineParsers returns CommonMark's, with a link parser that remembers where links end.
func inlineParsers() []util.PrioritizedValue {
	list := parser.DefaultInlineParsers()
	for i, p := range list {
		if links, ok := p.Value.(parser.InlineParser); ok && p.Priority == linkPriority {
			list[i] = util.Prioritized(linkParser{links}, p.Priority)
		}
	}
	return list
}

// linkPriority is the place of CommonMark's link parser among its inline parsers.
const linkPriority = 200

// linkParser is CommonMark's link parser. It notes where a link and its label end, which the syntax tree does not
// record.
type linkParser struct{ parser.InlineParser }

// The attributes under which a link's ends are kept.
const (
	attrLabel = "label-end"
	attrEnd   = "end"
)

func (p linkParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	_, before := block.Position()
	n := p.InlineParser.Parse(parent, block, pc)
	if n != nil && (n.Kind() == ast.KindLink || n.Kind() == ast.KindImage) {
		_, behind := block.Position()
		n.SetAttributeString(attrLabel, before.Start)
		n.SetAttributeString(attrEnd, behind.Start)
	}
	return n
}

func (p linkParser) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if c, ok := p.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, block, pc)
	}
}

// placeOfLink returns where a link's label ends, and where the link ends.
func placeOfLink(n ast.Node) (label, end int) {
	l, _ := n.AttributeString(attrLabel)
	e, _ := n.AttributeString(attrEnd)
	label, _ = l.(int)
	end, _ = e.(int)
	return label, end
}
