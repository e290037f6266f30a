package sniff

import (
	"bytes"

	"github.com/hermes-connector/hermes-connector/relay"
)

// riff identifies sound and films in RIFF and AIFF files. WebP is RIFF, too; the method picture identifies it.
func (f file) riff(head []byte) (relay.FileFacts, bool) {
	if len(head) >= 12 && string(head[:4]) == "RIFF" {
		switch string(head[8:12]) {
		case "WAVE":
			return audio("", "audio/wav", ".wav"), true
		case "AVI ":
			return video("", "video/x-msvideo", ".avi"), true
		}
	}
	if len(head) >= 12 && string(head[:4]) == "FORM" && (string(head[8:12]) == "AIFF" || string(head[8:12]) == "AIFC") {
		return audio("", "audio/aiff", ".aif"), true
	}
	return relay.FileFacts{}, false
}

// matroska identifies WebM and Matroska files. The names of codecs tell sound from films: those for sound begin with
// A_, those for films with V_.
func (f file) matroska(head []byte) (relay.FileFacts, bool) {
	if !bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) {
		return relay.FileFacts{}, false
	}
	sound := bytes.Contains(head, []byte("A_")) && !bytes.Contains(head, []byte("V_"))
	switch first := head[:min(len(head), 64)]; {
	case bytes.Contains(first, []byte("webm")) && sound:
		return audio(relay.FormatWebM, "audio/webm", ".webm"), true
	case bytes.Contains(first, []byte("webm")):
		return video(relay.FormatWebM, "video/webm", ".webm"), true
	case bytes.Contains(first, []byte("matroska")) && sound:
		return audio("", "audio/x-matroska", ".mka"), true
	case bytes.Contains(first, []byte("matroska")):
		return video("", "video/x-matroska", ".mkv"), true
	}
	return relay.FileFacts{}, false
}

// zip identifies ZIP files. Books and office documents are ZIP files with types of their own, which the names inside
// show.
func (f file) zip(head []byte) (relay.FileFacts, bool) {
	if !bytes.HasPrefix(head, []byte("PK\x03\x04")) && !bytes.HasPrefix(head, []byte("PK\x05\x06")) {
		return relay.FileFacts{}, false
	}
	const office = "application/vnd.openxmlformats-officedocument."
	if len(head) > 38 && bytes.HasPrefix(head[30:], []byte("mimetype")) {
		for _, z := range []struct{ mime, ext string }{
			{"application/epub+zip", ".epub"},
			{"application/vnd.oasis.opendocument.text", ".odt"},
			{"application/vnd.oasis.opendocument.spreadsheet", ".ods"},
			{"application/vnd.oasis.opendocument.presentation", ".odp"},
		} {
			if bytes.HasPrefix(head[38:], []byte(z.mime)) {
				return document(z.mime, z.ext), true
			}
		}
	}
	if bytes.Contains(head, []byte("[Content_Types].xml")) || bytes.Contains(head, []byte("_rels/.rels")) {
		all := append(bytes.Clone(head), f.at(max(0, f.size-headBytes), headBytes)...) // the directory is at the end
		switch {
		case bytes.Contains(all, []byte("word/")):
			return document(office+"wordprocessingml.document", ".docx"), true
		case bytes.Contains(all, []byte("xl/")):
			return document(office+"spreadsheetml.sheet", ".xlsx"), true
		case bytes.Contains(all, []byte("ppt/")):
			return document(office+"presentationml.presentation", ".pptx"), true
		}
	}
	return document("application/zip", ".zip"), true
}
