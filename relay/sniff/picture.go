package sniff

import (
	"bytes"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxSegments bounds how many parts of a JPEG are skipped in search of its size.
const maxSegments = 256

// picture identifies JPEG, PNG, GIF and WebP, and reads their width and height.
func (f file) picture(head []byte) (relay.FileFacts, bool) {
	facts := relay.FileFacts{Kind: relay.TypePhoto}
	var w, h uint32
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		facts.Format, facts.Mime, facts.Ext = relay.FormatJPEG, "image/jpeg", ".jpg"
		w, h = f.jpegSize()
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		facts.Format, facts.Mime, facts.Ext = relay.FormatPNG, "image/png", ".png"
		if len(head) >= 24 && string(head[12:16]) == "IHDR" {
			w, h = be32(head[16:]), be32(head[20:])
		}
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		facts.Format, facts.Mime, facts.Ext = relay.FormatGIF, "image/gif", ".gif"
		if len(head) >= 10 {
			w, h = uint32(le16(head[6:])), uint32(le16(head[8:]))
		}
	case len(head) >= 16 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		facts.Format, facts.Mime, facts.Ext = relay.FormatWebP, "image/webp", ".webp"
		w, h = webpSize(head[12:])
	default:
		return relay.FileFacts{}, false
	}
	if w > 0 && h > 0 && w <= 1<<31-1 && h <= 1<<31-1 {
		facts.Width, facts.Height = int(w), int(h)
	}
	return facts, true
}

// jpegSize returns the width and height that the frame header names; zeros: no such header was found. Metadata comes
// first, so the header may stand far behind.
func (f file) jpegSize() (w, h uint32) {
	off := int64(2)
	for range maxSegments {
		b := f.at(off, 9)
		if len(b) < 4 || b[0] != 0xff {
			return 0, 0
		}
		switch m := b[1]; {
		case m == 0xff: // filling
			off++
			continue
		case m == 0x01 || m >= 0xd0 && m <= 0xd7: // without a length
			off += 2
			continue
		case m == 0xd9 || m == 0xda: // the end; the picture itself
			return 0, 0
		case m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc:
			if len(b) < 9 {
				return 0, 0
			}
			return uint32(be16(b[7:])), uint32(be16(b[5:]))
		}
		off += 2 + int64(be16(b[2:]))
	}
	return 0, 0
}

// webpSize returns the width and height in the first chunk, of which there are three kinds.
func webpSize(chunk []byte) (w, h uint32) {
	if len(chunk) < 18 {
		return 0, 0
	}
	body := chunk[8:]
	switch string(chunk[:4]) {
	case "VP8X": // 24 bits each, less one
		return 1 + le32(body[4:])&0xffffff, 1 + le32(body[6:])>>8
	case "VP8L": // 14 bits each, less one, behind a signature
		if body[0] != 0x2f {
			return 0, 0
		}
		n := le32(body[1:])
		return 1 + n&0x3fff, 1 + n>>14&0x3fff
	case "VP8 ": // behind the frame tag and its start code
		if body[3] != 0x9d || body[4] != 0x01 || body[5] != 0x2a {
			return 0, 0
		}
		return uint32(le16(body[6:]) & 0x3fff), uint32(le16(body[8:]) & 0x3fff)
	}
	return 0, 0
}
