package markdown

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// EscapeAt reads the backslash escape or the character reference that s begins with; size 0: there is none.
func EscapeAt(s []byte) (plain string, size int) {
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

// Address is a link's destination as people read it: with backslash escapes and character references resolved.
func Address(s []byte) string {
	var out strings.Builder
	for len(s) > 0 {
		plain, size := EscapeAt(s)
		if size == 0 {
			plain, size = string(s[:1]), 1
		}
		out.WriteString(plain)
		s = s[size:]
	}
	return out.String()
}

// flat is what stands within the lines of n, without its markup, for code blocks show none.
func flat(source []byte, n ast.Node) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			value := c.Segment.Value(source)
			if _, code := n.(*ast.CodeSpan); code || c.IsRaw() {
				out.Write(value)
			} else {
				out.WriteString(Address(value))
			}
		case *ast.Link:
			out.WriteString(flatLink(flat(source, c), c.Destination))
		case *ast.Image:
			out.WriteString(flatLink(flat(source, c), c.Destination))
		case *ast.AutoLink:
			out.Write(c.Label(source))
		case *ast.RawHTML:
			out.Write(c.Segments.Value(source))
		default:
			out.WriteString(flat(source, c))
		}
	}
	return out.String()
}

// flatLink is a label and, behind it, an address that is not the label.
func flatLink(label string, destination []byte) string {
	switch address := strings.TrimPrefix(Address(destination), "mailto:"); {
	case address == "" || address == strings.TrimSpace(label):
		return label
	case strings.TrimSpace(label) == "":
		return label + address
	default:
		return label + " (" + address + ")"
	}
}
