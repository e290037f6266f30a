package terminal

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Plain returns s in one line, without characters that a terminal would obey: names come from networks and gateways. It
// spells characters that are not relay.Visible as Go does, so that somebody who looks for a fault sees them.
func Plain(s string) string { return spell(s, "", quoted) }

// Lines is Plain for text of several lines.
func Lines(s string) string { return spell(s, "\n", quoted) }

// Text is an argument of Sprintf that may have several lines, because the program itself wrote it.
type Text string

// Sprintf is fmt.Sprintf for a terminal. Arguments other than Text go through Plain, so that none of them starts a new
// line.
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

// quoted returns a character as Go spells it, such as \n or \u202e.
func quoted(r rune) string { return strings.Trim(strconv.QuoteRune(r), "'") }

// JSON returns a JSON text without characters that a terminal would obey. They are in strings only, so it spells them
// as JSON does.
func JSON(s string) string {
	return spell(s, "\n", func(r rune) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune{r}) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, u)
		}
		return b.String()
	})
}

// spell replaces every invisible character, except those in keep, with what by returns.
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
