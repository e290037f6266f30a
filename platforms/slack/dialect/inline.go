package dialect

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// The marks of formats.
const (
	bold   = '*'
	italic = '_'
	strike = '~'
	mono   = '`'
)

// inlines renders the inline nodes of n, within the formats that around lists.
func inlines(source []byte, n ast.Node, around ...byte) string {
	l := line{source: source}
	l.children(n, around)
	return l.done()
}

// line writes inline content. Slack's formats end with their line, have no blanks at their ends, and count only beside
// a blank or a punctuation mark.
type line struct {
	source []byte
	out    strings.Builder
	open   []byte // the formats that were begun, outermost first
	blanks string // not written yet: they belong behind the ends of formats
	ended  bool   // a format has just ended
	label  bool   // in the text of a link, which has no formats
}

// text writes s within formats. s is escaped already: nothing in it is markup except what this package made so.
func (l *line) text(s string, formats []byte) {
	for s != "" {
		end := strings.IndexFunc(s, unicode.IsSpace)
		if end == 0 {
			_, size := utf8.DecodeRuneInString(s)
			l.blanks, s = l.blanks+s[:size], s[size:]
			continue
		}
		if end < 0 {
			end = len(s)
		}
		l.word(s[:end], formats)
		s = s[end:]
	}
}

// word writes s, a stretch without blanks or a link, within formats. It ends the open formats that s does not have,
// writes the blanks that wait, and begins the formats that are new. It writes a joint where a mark would not count
// beside a letter.
func (l *line) word(s string, formats []byte) {
	if l.label {
		formats = nil
	}
	same := 0
	for same < min(len(l.open), len(formats)) && l.open[same] == formats[same] && !strings.Contains(l.blanks, "\n") {
		same++
	}
	l.close(same)
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(l.out.String())
	begins := len(formats) > same
	if l.blanks == "" && (l.ended && (begins || isLetter(first)) || begins && isLetter(last) && len(l.open) == 0) {
		l.out.WriteString(joint)
	}
	l.out.WriteString(l.blanks)
	l.blanks, l.ended = "", false
	l.open = append(l.open, formats[same:]...)
	l.out.Write(formats[same:])
	l.out.WriteString(s)
}

// close ends the formats from the given one on.
func (l *line) close(from int) {
	for i := len(l.open) - 1; i >= from; i-- {
		l.out.WriteByte(l.open[i])
		l.ended = true
	}
	l.open = l.open[:from]
}

func (l *line) done() string {
	l.close(0)
	return l.out.String()
}

func isLetter(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

func (l *line) children(n ast.Node, formats []byte) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		l.node(c, formats)
	}
}

func (l *line) node(n ast.Node, formats []byte) {
	switch n := n.(type) {
	case *ast.Text:
		s := string(n.Segment.Value(l.source))
		if !n.IsRaw() {
			s = markdown.Address([]byte(s))
		}
		l.text(literal(s), formats)
		if n.SoftLineBreak() || n.HardLineBreak() {
			l.blanks += "\n"
		}
	case *ast.String:
		l.text(literal(string(n.Value)), formats)
	case *ast.Emphasis:
		if n.Level == 2 {
			l.format(n, bold, formats)
		} else {
			l.format(n, italic, formats)
		}
	case *extast.Strikethrough:
		l.format(n, strike, formats)
	case *ast.CodeSpan:
		l.code(n, formats)
	case *ast.Link:
		l.link(n, n.Destination, formats)
	case *ast.Image:
		l.link(n, n.Destination, formats)
	case *ast.AutoLink:
		l.address(string(n.URL(l.source)), string(n.Label(l.source)), formats)
	case *ast.RawHTML:
		l.text(literal(string(n.Segments.Value(l.source))), formats)
	case *extast.TaskCheckBox:
		l.text(markdown.Box(n), formats)
	default:
		l.children(n, formats)
	}
}

// format writes the children of n with one more mark, unless that is around them already.
func (l *line) format(n ast.Node, mark byte, formats []byte) {
	if !slices.Contains(formats, mark) {
		formats = append(slices.Clip(formats), mark)
	}
	l.children(n, formats)
}

// code writes a code span. Slack has no code span with a backtick in it, so that one is written as text.
func (l *line) code(n *ast.CodeSpan, formats []byte) {
	var s strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			s.Write(t.Segment.Value(l.source))
		}
	}
	words := strings.ReplaceAll(s.String(), "\n", " ")
	switch trimmed := strings.TrimSpace(words); {
	case strings.Contains(words, "`") || l.label:
		l.text(literal(words), formats)
	case trimmed == "":
		l.text(words, formats)
	default:
		l.word(Escape(trimmed), append(slices.Clip(formats), mono))
		l.close(len(formats)) // the next span is a separate one
	}
}

// link writes a link or an image as a link. Its words have no formats of their own.
func (l *line) link(n ast.Node, destination []byte, formats []byte) {
	words := line{source: l.source, label: true}
	words.children(n, nil)
	said := strings.Join(strings.Fields(words.done()), " ")
	if link := reference(string(util.URLEscape(destination, true)), said); link != "" && !l.label {
		l.word(link, formats)
		return
	}
	l.text(said, formats)
	l.aside(said, destination, formats)
}

// aside writes an address that is no link behind its words, unless they are the same.
func (l *line) aside(said string, destination, formats []byte) {
	switch address := Escape(markdown.Address(destination)); {
	case address == "" || address == said:
	case said == "":
		l.text(address, formats)
	default:
		l.text(" ("+address+")", formats)
	}
}

// address writes a bare address: a link to target, shown as words, which is the address as its author wrote it.
func (l *line) address(target, words string, formats []byte) {
	if strings.Contains(words, "@") && !strings.Contains(target, ":") {
		target = "mailto:" + target
	}
	said := Escape(words)
	if words == target {
		said = ""
	}
	if link := reference(string(util.URLEscape([]byte(target), false)), said); link != "" && !l.label {
		l.word(link, formats)
		return
	}
	l.text(literal(words), formats)
}

// inTarget escapes characters that end an address in Slack.
var inTarget = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C", " ", "%20", "\n", "%0A")

// maxLink is the longest link, in characters. No link is cut in two; a longer one is written as text.
const maxLink = MaxSection / 2

// reference returns a Slack link, or "" if Slack makes no link of target. words are escaped, or empty.
func reference(target, words string) string {
	if !linkable(target) {
		return ""
	}
	link := "<" + inTarget.Replace(target)
	if words != "" {
		link += "|" + words
	}
	if link += ">"; utf8.RuneCountInString(link) > maxLink {
		return ""
	}
	return link
}

// linkable reports whether Slack makes a link of target.
func linkable(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return u.Opaque != ""
	}
	return false
}
