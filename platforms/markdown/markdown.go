// Package markdown holds what every platform's rendering of CommonMark needs: what is fit to be
// parsed, a long text as a walk over its blocks, and the parts of a document whose meaning does not
// depend on the dialect. How a dialect says them is the platform's.
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

// NotInLanguage reports whether c does not belong in the name of a language behind a fence.
func NotInLanguage(c rune) bool {
	return c > 0x7e || !util.IsAlphaNumeric(byte(c)) && !strings.ContainsRune("+-#._", c)
}
