package sniff

import "unicode/utf8"

// isText reports whether head is UTF-8 that people could read: no control characters except those of texts and
// terminals. cut: the file continues behind head, so head may end within a character.
func isText(head []byte, cut bool) bool {
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 {
			return cut && !utf8.FullRune(head[i:])
		}
		if r < ' ' && (r < '\a' || r > '\r') && r != '\x1b' || r == '\x7f' {
			return false
		}
		i += n
	}
	return len(head) > 0
}
