package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Plain is s without what a terminal would obey: names come from networks and gateways. What cannot
// be seen is spelled as Go would.
// It is not inlined: many call it, and none of them in a hurry.
//
//go:noinline
func Plain(s string) string { return spell(s, "", quoted) }

// Lines is Plain for text of several lines.
func Lines(s string) string { return spell(s, "\n", quoted) }

func quoted(r rune) string { return strings.Trim(strconv.QuoteRune(r), "'") }

// JSON is Plain for JSON, where such characters can only stand in strings.
func JSON(s string) string {
	return spell(s, "\n", func(r rune) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune{r}) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, u)
		}
		return b.String()
	})
}

// spell replaces what cannot be seen, but for the runes in keep.
func spell(s, keep string, by func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(by(r))
		}
	}
	return b.String()
}
