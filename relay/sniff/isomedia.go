package sniff

import (
	"github.com/hermes-connector/hermes-connector/relay"
)

// isoMedia identifies files that begin with a file type box: MP4 and its relatives.
func (f file) isoMedia(head []byte) (relay.FileFacts, bool) {
	if len(head) < 12 || string(head[4:8]) != "ftyp" {
		return relay.FileFacts{}, false
	}
	switch brand := string(head[8:12]); brand {
	case "M4A ", "M4B ", "M4P ", "F4A ", "F4B ":
		return audio(relay.FormatM4A, "audio/mp4", ".m4a"), true
	case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1":
		return document("image/heic", ".heic"), true
	case "avif", "avis":
		return document("image/avif", ".avif"), true
	case "crx ":
		return document("image/x-canon-cr3", ".cr3"), true
	case "qt  ":
		return video("", "video/quicktime", ".mov"), true
	default:
		if f.onlySound() {
			return audio(relay.FormatM4A, "audio/mp4", ".m4a"), true
		}
		if brand[:2] == "3g" {
			return video("", "video/3gpp", ".3gp"), true
		}
		return video(relay.FormatMP4, "video/mp4", ".mp4"), true
	}
}

// maxBoxes bounds how many boxes of a file are read.
const maxBoxes = 256

// onlySound reports whether the tracks are sound and no film. Phones record sound under a film's brand.
func (f file) onlySound() bool {
	var sound, film bool
	left := maxBoxes
	f.boxes(&left, 0, f.size, []string{"moov", "trak", "mdia", "hdlr"}, func(at int64) {
		if b := f.at(at, 12); len(b) == 12 {
			sound = sound || string(b[8:]) == "soun"
			film = film || string(b[8:]) == "vide"
		}
	})
	return sound && !film
}

// boxes reads the boxes between two positions, and descends, level by level, into those that path names. For each box
// at the end of the path it calls do with the position at which the content begins. left is how many boxes may still be
// read, at all levels together.
func (f file) boxes(left *int, from, to int64, path []string, do func(at int64)) {
	for ; *left > 0 && to-from >= 8; *left-- {
		b := f.at(from, 16)
		if len(b) < 8 {
			return
		}
		size, header := int64(be32(b)), int64(8)
		switch {
		case size == 0: // up to the end
			size = to - from
		case size == 1 && len(b) == 16 && be64(b[8:]) < 1<<62:
			size, header = int64(be64(b[8:])), 16
		}
		if size < header || size > to-from {
			return
		}
		switch {
		case string(b[4:8]) != path[0]:
		case len(path) == 1:
			do(from + header)
		default:
			f.boxes(left, from+header, from+size, path[1:], do)
		}
		from += size
	}
}
