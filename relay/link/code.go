package link

import (
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// alphabet lacks I, L, O and U: three look like digits, one makes words.
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// codeLen is how many symbols a code has: 44 random bits, enough with five tries in ten minutes.
	codeLen = 9
	// olderLen is how many symbols codes of earlier versions had, some of which began with a digit.
	olderLen = 8
)

// newCode returns a random code without its dash.
func newCode() string { return relay.RandomOf(alphabet, codeLen) }

// display returns the code as people see it: in groups of three.
func display(code string) string { return code[:3] + "-" + code[3:6] + "-" + code[6:] }

// parseCode reads a code as people type it: in upper or lower case, with blanks and dashes anywhere, and with letters
// in place of the digits that they look like. The result has no dash.
func parseCode(typed string) (code string, ok bool) {
	var b strings.Builder
	for _, r := range typed {
		switch {
		case unicode.IsSpace(r), unicode.In(r, unicode.Pd, unicode.Cf), r == '\u2212': // minus sign
			continue
		case 'a' <= r && r <= 'z':
			r += 'A' - 'a'
		}
		switch r {
		case 'O':
			r = '0'
		case 'I', 'L':
			r = '1'
		}
		if b.Len() == codeLen || !strings.ContainsRune(alphabet, r) {
			return "", false
		}
		b.WriteRune(r)
	}
	return b.String(), b.Len() == codeLen || b.Len() == olderLen
}
