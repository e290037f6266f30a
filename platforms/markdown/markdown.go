// Package markdown renders CommonMark and cuts the result into messages, for networks with dialects of their own. It
// limits what it parses at once (Document), walks the blocks of a text (Writer) and finds the places for cuts
// (Splitter). Each platform defines how its dialect writes a block, and what a cut must not tear: Form, Dialect and
// Cuts. rivo/uniseg finds the ends of characters as people see them.
package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/util"
)

const (
	// MaxText is how many characters a text may have: enough for some thirty of Telegram's messages.
	MaxText = 1 << 17
	// Short is the longest text, in bytes, that is rendered at once. A longer text waits until no other long text of
	// its bot is being rendered, because rendering takes many times a text's size in memory.
	Short = 2 << 10
)

// TooLong reports whether source has more than MaxText characters.
func TooLong(source string) bool { return utf8.RuneCountInString(source) > MaxText }

// MaxLanguage is the longest name of a language behind a fence, in bytes.
const MaxLanguage = 40

// IsLanguage reports whether info, behind a fence, can be the name of a language. It may be empty.
func IsLanguage(info string) bool {
	return len(info) <= MaxLanguage && !strings.ContainsFunc(info, func(c rune) bool {
		return c > 0x7e || !util.IsAlphaNumeric(byte(c)) && !strings.ContainsRune("+-#._", c)
	})
}

// Label returns text, which comes from Clean, on one line. If it has more than most characters, it is cut and ends with
// an ellipsis. No character, as people see them, is cut in two.
func Label(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	var cut strings.Builder
	n := 0
	for letters := uniseg.NewGraphemes(text); letters.Next(); {
		if n += len(letters.Runes()); n > most-1 {
			break
		}
		cut.WriteString(letters.Str())
	}
	return strings.TrimSpace(cut.String()) + "…"
}
