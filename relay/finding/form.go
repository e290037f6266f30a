package finding

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Misworded returns what keeps a finding's words from being shown everywhere: in a line behind others, in a page's
// heading, and with a command that can be copied; empty: nothing does. The tests of finders call it.
func Misworded(f Finding) string {
	first, _ := utf8.DecodeRuneInString(f.What)
	second, _ := utf8.DecodeRuneInString(strings.TrimPrefix(f.What, string(first)))
	switch {
	case f.What == "" || f.Why == "" || f.Fix == "":
		return "something is not said"
	case strings.HasSuffix(f.What, ".") || strings.HasSuffix(f.Fix, "."):
		return "what was seen, and its fix, go on in a line: no full stop"
	case strings.Count(f.Fix, "`")%2 != 0:
		return "a backtick is missing"
	case !strings.HasPrefix(f.Fix, "hermes-connector ") && strings.Contains(strings.NewReplacer("`hermes-connector ", "", "`sudo hermes-connector ", "").Replace(f.Fix), "hermes-connector "):
		return "a command among words stands in backticks"
	}
	for _, verb := range []string{" shows", " says", " asks", " makes", " prints", " tries", " brings", " lists", " judges", ";", ", "} {
		if strings.HasPrefix(f.Fix, "hermes-connector ") && strings.Contains(f.Fix, verb) {
			return "a fix that begins with a command is that command alone"
		}
	}
	if unicode.IsUpper(first) && unicode.IsLower(second) && !ownName(f.What) {
		return "what was seen begins with a capital"
	}
	return ""
}

// ownName reports whether a text begins with the name of a network.
func ownName(s string) bool {
	for _, n := range []string{"Telegram", "Discord", "Twilio", "WeCom"} {
		if strings.HasPrefix(s, n) {
			return true
		}
	}
	return false
}
