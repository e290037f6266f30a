// Package filename makes names of files safe: those that strangers gave to files on a network, and those that gateways
// give to uploads. This package never uses a name as a path; it makes names safe for the code that does.
//
// Invariants:
//
//  1. A name has no separators of paths, no control or invisible characters, and at most Max characters.
//  2. Its extension follows the bytes: only a picture gets the extension of a picture.
//  3. A shown name cannot end the bracket that it stands in, nor begin a line.
package filename

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Max is how many characters a name may have.
const Max = 255

// maxExt is how long an extension may be, with its dot; a longer one is part of the name.
const maxExt = 16

// Clean returns name without its folders and without characters that are invisible or turn the direction of writing. A
// long name loses the end of its stem. The result is empty if nothing is left.
func Clean(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.TrimRight(relay.Shown(name), ". ")
	if strings.Trim(name, ". ") == "" {
		return ""
	}
	if utf8.RuneCountInString(name) > Max {
		ext := Ext(name)
		stem := []rune(strings.TrimSuffix(name, ext))
		name = strings.TrimRight(string(stem[:Max-utf8.RuneCountInString(ext)]), ". ") + ext
	}
	return name
}

// FromHeader returns the name that a gateway put into a header, cleaned by Clean. The header is UTF-8, or Latin-1 as
// Python's client sends it.
func FromHeader(raw string) string {
	if !utf8.ValidString(raw) {
		latin := make([]rune, len(raw))
		for i := range len(raw) {
			latin[i] = rune(raw[i])
		}
		raw = string(latin)
	}
	return Clean(raw)
}

// Ext returns name's extension, with its dot and as written; empty if it has none.
func Ext(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || len(name)-i > maxExt || i == len(name)-1 || strings.ContainsRune(name[i:], ' ') {
		return ""
	}
	return name[i:]
}

// Fit returns the clean name of a file with the facts f, with an extension that fits them: "voice.oga" becomes
// "voice.ogg". A file without a name is called after its kind: "photo.jpg".
func Fit(name string, f relay.FileFacts) string {
	name = Clean(name)
	if name == "" {
		return cut(string(f.Kind), cmp.Or(f.Ext, ".bin"))
	}
	ext := Ext(name)
	has := strings.ToLower(ext)
	switch {
	case has == f.Ext, alias[has] == f.Ext && alias[has] != "" && !refused[has]:
		return name
	case own[has] || refused[has]: // the name claims a type that the file does not have
		return cut(strings.TrimSuffix(name, ext), cmp.Or(f.Ext, ".bin"))
	case own[f.Ext]:
		return cut(name, f.Ext)
	case has == "" && f.Ext != "" && f.Ext != ".txt":
		return cut(name, f.Ext)
	}
	return name // for text, an archive or an unknown type, the name says more
}

// cut puts ext behind stem, and shortens stem to fit.
func cut(stem, ext string) string {
	if r := []rune(stem); len(r)+len(ext) > Max {
		stem = string(r[:Max-len(ext)])
	}
	return cmp.Or(stem, string(relay.TypeDocument)) + ext
}

// own are the extensions of types that can be recognised by their bytes: only a file of that type may have one.
var own = set(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".gif", ".webp", ".mp4", ".m4v", ".webm", ".ogg", ".oga", ".opus", ".ogv",
	".mp3", ".m4a", ".m4b", ".wav", ".flac", ".aac", ".avi", ".mov", ".mkv", ".mka", ".pdf", ".heic", ".heif", ".avif", ".tif", ".tiff",
	".gz", ".tgz", ".tgs", ".7z", ".rar", ".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".3gp", ".amr", ".aif", ".aiff")

// alias maps other ways to write an extension to the usual one.
var alias = map[string]string{
	".jpeg": ".jpg", ".jpe": ".jpg", ".jfif": ".jpg", ".apng": ".png", ".m4v": ".mp4", ".m4b": ".m4a", ".tiff": ".tif", ".tgz": ".gz",
	".tgs": ".gz", ".heif": ".heic", ".mpeg": ".mpg", ".aiff": ".aif", ".3g2": ".3gp", ".spx": ".ogg",
}

// refused are extensions that are right but replaced all the same, because gateways do not transcribe files with them.
var refused = set(".oga", ".opus", ".spx")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
