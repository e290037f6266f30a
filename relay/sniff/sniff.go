// Package sniff identifies a file by its bytes: format, MIME type, extension, kind, how long Ogg Opus plays, and
// the size of a picture. It does not decode: it reads a few header bytes of a picture, and the rest may be broken.
//
// Invariants:
//
//  1. Neither names nor statements of a network or a gateway decide anything.
//  2. It reads a bounded number of bytes at a bounded number of places, whatever the file says of itself.
//  3. TypePhoto is JPEG, PNG, GIF and WebP only: models take no other pictures.
//  4. Sound in Ogg is .ogg, never .oga: gateways refuse to transcribe .oga. Films in Ogg are .ogv.
package sniff

import (
	"bytes"
	"io"

	"github.com/hermes-connector/hermes-connector/relay"
)

// headBytes is how many bytes at the beginning of a file are examined for its format and for whether it is text.
const headBytes = 8 << 10

// Of returns the facts of a file of size bytes. Unreadable parts count as unknown: at worst an error of r makes it
// FormatOther.
func Of(r io.ReaderAt, size int64) relay.FileFacts {
	f := file{r, size}
	head := f.at(0, headBytes)
	facts := f.format(head)
	if facts.Format == "" {
		facts.Format = relay.FormatOther
	}
	if facts.Kind == "" {
		facts.Kind = relay.TypeDocument
	}
	facts.Size = size
	return facts
}

// format tries the formats that need more than a few fixed bytes, then the table magics, then text.
func (f file) format(head []byte) relay.FileFacts {
	for _, ask := range []func(file, []byte) (relay.FileFacts, bool){
		file.picture, file.ogg, file.riff, file.isoMedia, file.matroska, file.zip, file.mpegAudio,
	} {
		if facts, ok := ask(f, head); ok {
			return facts
		}
	}
	for _, m := range magics {
		if len(head) > m.at && bytes.HasPrefix(head[m.at:], []byte(m.bytes)) {
			return m.facts
		}
	}
	if isText(head, f.size > int64(len(head))) {
		return relay.FileFacts{Mime: "text/plain", Ext: ".txt"}
	}
	return relay.FileFacts{Mime: octets}
}

// magics are the formats that a few bytes at a fixed position identify. Pictures among them count as documents, because
// models do not take them.
var magics = []struct {
	at    int
	bytes string
	facts relay.FileFacts
}{
	{0, "%PDF-", document("application/pdf", ".pdf")},
	{0, "fLaC", audio("", "audio/flac", ".flac")},
	{0, "#!AMR", audio("", "audio/amr", ".amr")},
	{0, "MThd", audio("", "audio/midi", ".mid")},
	{0, "caff", audio("", "audio/x-caf", ".caf")},
	{0, "FLV\x01", video("", "video/x-flv", ".flv")},
	{0, "\x00\x00\x01\xba", video("", "video/mpeg", ".mpg")},
	{0, "\x00\x00\x01\xb3", video("", "video/mpeg", ".mpg")},
	{0, "\x1f\x8b\x08", document("application/gzip", ".gz")},
	{0, "BZh", document("application/x-bzip2", ".bz2")},
	{0, "\xfd7zXZ\x00", document("application/x-xz", ".xz")},
	{0, "\x28\xb5\x2f\xfd", document("application/zstd", ".zst")},
	{0, "7z\xbc\xaf\x27\x1c", document("application/x-7z-compressed", ".7z")},
	{0, "Rar!\x1a\x07", document("application/x-rar-compressed", ".rar")},
	{257, "ustar", document("application/x-tar", ".tar")},
	{0, "{\\rtf", document("application/rtf", ".rtf")},
	{0, "SQLite format 3\x00", document("application/x-sqlite3", ".sqlite")},
	{0, "II*\x00", document("image/tiff", ".tif")},
	{0, "MM\x00*", document("image/tiff", ".tif")},
	{0, "8BPS\x00\x01", document("image/vnd.adobe.photoshop", ".psd")},
}
