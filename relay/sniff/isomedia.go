package sniff

import (
	"github.com/hermes-connector/hermes-connector/relay"
)

// isoMedia knows what begins with a file type box: MP4 and its relatives.
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

// maxBoxes bounds how many boxes of one level are looked at.
const maxBoxes = 64

// onlySound reports whether the tracks are sound and no film. Phones record sound under a film's brand.
func (f file) onlySound() bool {
	var sound, film bool
	f.boxes(0, f.size, "moov", func(from, to int64) {
		f.boxes(from, to, "trak", func(from, to int64) {
			f.boxes(from, to, "mdia", func(from, to int64) {
				f.boxes(from, to, "hdlr", func(from, _ int64) {
					if b := f.at(from, 12); len(b) == 12 {
						sound = sound || string(b[8:]) == "soun"
						film = film || string(b[8:]) == "vide"
					}
				})
			})
		})
	})
	return sound && !film
}

// boxes calls do with the bounds of what the boxes of that name hold, between two places.
func (f file) boxes(from, to int64, name string, do func(from, to int64)) {
	for range maxBoxes {
		b := f.at(from, 16)
		if len(b) < 8 || to-from < 8 {
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
		if string(b[4:8]) == name {
			do(from+header, from+size)
		}
		from += size
	}
}
