// Package markdown renders CommonMark and cuts what came out into messages, for networks that have a dialect
// of their own. It knows what is fit to be parsed (Document), walks the blocks of a text (Writer) and finds
// the places for cuts (Splitter). What a block looks like in a dialect, and what a cut must not tear there,
// each platform says: Form, Dialect and Cuts.
//
// Where one character ends, as people see it, rivo/uniseg knows: Unicode's rules are tables of a few
// thousand ranges, which change every year.
package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/util"
)

const (
	// MaxText is how many characters a text may have. Networks would make a hundred messages of more,
	// which nobody reads and no deadline allows, and it takes many times its size in memory to do so.
	MaxText = 1 << 17
	// Short is the longest text, in bytes, of which any number may be rendered at a time.
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
