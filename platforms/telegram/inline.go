package telegram

import (
	"html"
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// inlines writes the children of n, which stand within lines.
func (r *renderer) inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		r.inline(c)
	}
}

func (r *renderer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		if n.IsRaw() {
			r.copy(n.Segment.Start, n.Segment.Stop)
		} else {
			r.unescape(n.Segment.Start, n.Segment.Stop)
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			r.write("\n")
		}
	case *ast.String:
		r.write(string(n.Value))
	case *ast.CodeSpan:
		r.format(style{Type: entityCode}, func() { r.codeSpan(n) })
	case *ast.Emphasis:
		kind := entityItalic
		if n.Level > 1 {
			kind = entityBold
		}
		r.format(style{Type: kind}, func() { r.inlines(n) })
	case *extast.Strikethrough:
		r.format(style{Type: entityStrike}, func() { r.inlines(n) })
	case *spoiler:
		r.format(style{Type: entitySpoiler}, func() { r.inlines(n) })
	case *ast.Link:
		r.link(n, n.Destination)
	case *ast.Image:
		r.link(n, n.Destination)
	case *ast.AutoLink: // Telegram makes the link by itself
		r.write(string(n.Label(r.src)))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			r.copy(n.Segments.At(i).Start, n.Segments.At(i).Stop)
		}
	case *extast.TaskCheckBox:
		box := "☐ "
		if n.IsChecked {
			box = "☑ "
		}
		r.write(box)
	default:
		r.inlines(n)
	}
}

// codeSpan writes code as it is; its line ends are blanks.
func (r *renderer) codeSpan(n *ast.CodeSpan) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, ok := c.(*ast.Text)
		if !ok {
			continue
		}
		seg := t.Segment
		if !seg.IsEmpty() && r.src[seg.Stop-1] == '\n' {
			r.copy(seg.Start, seg.Stop-1)
			r.write(" ")
			continue
		}
		r.copy(seg.Start, seg.Stop)
	}
}

// link writes a link or an image: as a format where that is possible, else with its target
// behind it in parentheses.
func (r *renderer) link(n ast.Node, destination []byte) {
	target := string(util.URLEscape(destination, true))
	before := r.out.Len()
	label := func() {
		r.inlines(n)
		if strings.TrimSpace(r.out.String()[before:]) == "" {
			r.write(shown(destination))
		}
	}
	if !r.flat && linkable(target) {
		r.flush()
		before = r.out.Len()
		r.format(style{Type: entityLink, URL: target}, label)
		return
	}
	label()
	if s := shown(destination); s != "" && s != strings.TrimSpace(r.out.String()[before:]) {
		r.write(" (" + s + ")")
	}
}

// shown is a link target as people read it. Addresses go without their scheme: Telegram finds
// them in the text, and would turn a mailto link into a web address.
func shown(destination []byte) string {
	return strings.TrimPrefix(unescaped(string(destination)), "mailto:")
}

// linkable reports whether Telegram takes target for a text_link. It refuses a whole message
// for one bad link, and its server knows only web and tg links; a web host has a dot in it.
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
		plain, size := escapeAt(r.src[i:end])
		if size == 0 {
			i++
			continue
		}
		r.copy(from, i)
		r.flush()
		r.marks = append(r.marks, mark{at: r.at, start: i, end: i + size})
		r.write(plain)
		i += size
		from = i
	}
	r.copy(from, end)
}

// unescaped is s with backslash escapes and character references resolved.
func unescaped(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		plain, size := escapeAt([]byte(s[i:]))
		if size == 0 {
			out.WriteByte(s[i])
			i++
			continue
		}
		out.WriteString(plain)
		i += size
	}
	return out.String()
}

// escapeAt reads the escape or character reference s begins with; size 0 means none.
func escapeAt(s []byte) (plain string, size int) {
	if len(s) > 1 && s[0] == '\\' && util.IsPunct(s[1]) {
		return string(s[1]), 2
	}
	if len(s) < 3 || s[0] != '&' {
		return "", 0
	}
	end := 1
	for end < len(s) && end < 40 && (util.IsAlphaNumeric(s[end]) || s[end] == '#' && end == 1) {
		end++
	}
	if end == len(s) || s[end] != ';' {
		return "", 0
	}
	ref := string(s[:end+1])
	plain = html.UnescapeString(ref)
	if strings.HasSuffix(plain, ";") && plain != ";" { // unknown, or known only in its first letters
		return "", 0
	}
	return strings.ReplaceAll(plain, "\x00", "\uFFFD"), end + 1
}
