package markdown

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// EscapeAt reads the backslash escape or the character reference at the beginning of s. It returns the text that this
// stands for, and its size in bytes; size 0: there is none.
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

// Address returns a link's destination as people read it: with backslash escapes and character references resolved.
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

// Box returns the text that is shown for a task's checkbox.
func Box(n *extast.TaskCheckBox) string {
	if n.IsChecked {
		return "☑ "
	}
	return "☐ "
}

// Said returns the words of an inline node itself, without markup: a text with the end of its line, a bare address,
// HTML as written, the box of a task. ok is false for any other node: its children have its words.
func Said(source []byte, n ast.Node) (said string, ok bool) {
	switch n := n.(type) {
	case *ast.Text:
		said = string(n.Segment.Value(source))
		if _, code := n.Parent().(*ast.CodeSpan); code {
			said = strings.ReplaceAll(said, "\n", " ")
		} else if !n.IsRaw() {
			said = Address([]byte(said))
		}
		if n.SoftLineBreak() || n.HardLineBreak() {
			said += "\n"
		}
	case *ast.String:
		said = string(n.Value)
	case *ast.AutoLink:
		said = string(n.Label(source))
	case *ast.RawHTML:
		said = string(n.Segments.Value(source))
	case *extast.TaskCheckBox:
		said = Box(n)
	default:
		return "", false
	}
	return said, true
}

// Flat returns the inline content of n without markup; the address of a link stands behind its words.
func Flat(source []byte, n ast.Node) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Link:
			label := Flat(source, c)
			out.WriteString(label + Behind(label, c.Destination))
		case *ast.Image:
			label := Flat(source, c)
			out.WriteString(label + Behind(label, c.Destination))
		case *extast.TaskCheckBox:
			if c.IsChecked {
				out.WriteString("[x] ")
			} else {
				out.WriteString("[ ] ")
			}
		default:
			said, ok := Said(source, c)
			if !ok {
				said = Flat(source, c)
			}
			out.WriteString(said)
		}
	}
	return out.String()
}

// Behind returns the address of a link or an image, to stand behind its words where a link cannot be hidden; empty if
// the words are that address.
func Behind(words string, destination []byte) string {
	switch address := strings.TrimPrefix(Address(destination), "mailto:"); {
	case address == "" || address == strings.TrimSpace(words):
		return ""
	case strings.TrimSpace(words) == "":
		return address
	default:
		return " (" + address + ")"
	}
}
