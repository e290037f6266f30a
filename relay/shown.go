package relay

import (
	"strings"
	"unicode"
)

// Visible reports whether r may stand in what people read: it shows something, or joins letters and emoji. Control
// characters do not, nor those that turn the direction of what stands around them.
func Visible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == nonJoiner || r == joiner
}

// Shown is what others called something or said of it, fit to stand in a line of ours: one line, with nothing in it that
// is not Visible.
func Shown(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !Visible(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.TrimSpace(s)
}
