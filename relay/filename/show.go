package filename

import (
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Show prepares text from outside to stand between brackets in a line of ours: in one line, without brackets and
// invisible characters.
func Show(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '[', '［', '⁅', '❲', '〔', '【', '⟦', '〚', '﹝', '﹇':
			return '('
		case ']', '］', '⁆', '❳', '〕', '】', '⟧', '〛', '﹞', '﹈':
			return ')'
		}
		return r
	}, relay.Shown(text))
}

// Disposition returns a Content-Disposition header with a clean name. The ASCII form comes last: gateways take the
// extension from the text after the first "filename=".
func Disposition(name string) string {
	return "attachment; filename*=UTF-8''" + percent(name) + `; filename="` + ASCII(name) + `"`
}

// ASCII returns a name that every header can carry, with the same extension if that is ASCII.
func ASCII(name string) string {
	ext := Ext(name)
	for _, r := range ext[min(1, len(ext)):] {
		if !plain(r) || r == '-' || r == '_' || r == '.' {
			ext = ""
			break
		}
	}
	var b strings.Builder
	under := false // the last character was replaced; several in a row become one "_"
	for _, r := range strings.TrimSuffix(name, Ext(name)) {
		switch {
		case plain(r) || r == ' ':
			b.WriteRune(r)
		case !under:
			b.WriteByte('_')
		}
		under = !plain(r) && r != ' '
	}
	if strings.Trim(b.String(), "_ .") == "" {
		return "file" + ext
	}
	return b.String() + ext
}

// plain reports whether a character needs no quotes anywhere.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// percent returns name with every byte that is not a plain character as %XX, as RFC 8187 demands.
func percent(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(rune(c)) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
