package relay

import (
	"strings"
	"unicode"
)

// Visible reports whether r may appear in text for people: it shows something, or joins letters and emoji. Control
// characters may not, nor those that turn the direction of the text around them.
func Visible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == nonJoiner || r == joiner
}

// Shown prepares a text from outside, a name or a description, for a line of ours: one line, with only Visible
// characters.
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
