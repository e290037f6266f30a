package media

import (
	"cmp"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxName is the longest name of a file, in characters.
const maxName = 255

// FileName is the name of a file for others: what it was called, without a path and control characters, at most 255
// characters, with the extension of its bytes. Without a name it is called as what it is: "voice.ogg".
func FileName(name string, kind relay.MessageType, f relay.FileFacts) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, name)
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	if name = strings.TrimSpace(name); strings.Trim(name, ".") == "" {
		name = string(cmp.Or(kind, f.Kind, relay.TypeDocument))
	}
	if f.Ext != "" && !strings.EqualFold(path.Ext(name), f.Ext) {
		if ext := path.Ext(name); f.Format != relay.FormatOther && len(ext) <= 5 && !strings.Contains(ext, " ") {
			name = strings.TrimSuffix(name, ext) // which was wrong
		}
		name += f.Ext
	}
	if over := utf8.RuneCountInString(name) - maxName; over > 0 {
		ext := path.Ext(name)
		if utf8.RuneCountInString(ext) > 16 {
			ext = ""
		}
		stem := []rune(strings.TrimSuffix(name, ext))
		name = string(stem[:len(stem)-over]) + ext
	}
	return name
}
