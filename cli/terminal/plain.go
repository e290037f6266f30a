package terminal

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Plain is s in one line and without what a terminal would obey: names come from networks and gateways. What is not
// relay.Visible is spelled as Go would, so that whoever looks for a fault sees it.
func Plain(s string) string { return spell(s, "", quoted) }

// Lines is Plain for text of several lines.
func Lines(s string) string { return spell(s, "\n", quoted) }

// Text is text of ours in several lines, for Sprintf.
type Text string

// Sprintf is fmt.Sprintf for a terminal: each argument that is no Text is Plain, so that none of them makes a line of its own.
func Sprintf(format string, args ...any) string {
	for n, arg := range args {
		switch v := arg.(type) {
		case Text:
			args[n] = Lines(string(v))
		case error, fmt.Stringer:
			args[n] = Plain(fmt.Sprint(v))
		default:
			if reflect.ValueOf(v).Kind() == reflect.String {
				args[n] = Plain(fmt.Sprint(v))
			}
		}
	}
	return fmt.Sprintf(format, args...)
}

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
		if relay.Visible(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(by(r))
		}
	}
	return b.String()
}
