package sniff

import (
	"encoding/binary"
	"io"

	"github.com/hermes-connector/hermes-connector/relay"
)

// file is the file that is examined.
type file struct {
	r    io.ReaderAt
	size int64
}

// at returns up to n bytes from off; fewer at the end or after an error.
func (f file) at(off int64, n int) []byte {
	if off < 0 || off >= f.size {
		return nil
	}
	b := make([]byte, min(int64(n), f.size-off))
	n, _ = f.r.ReadAt(b, off)
	return b[:n]
}

func document(mime, ext string) relay.FileFacts { return relay.FileFacts{Mime: mime, Ext: ext} }

func audio(format relay.Format, mime, ext string) relay.FileFacts {
	return relay.FileFacts{Format: format, Mime: mime, Ext: ext, Kind: relay.TypeAudio}
}

func video(format relay.Format, mime, ext string) relay.FileFacts {
	return relay.FileFacts{Format: format, Mime: mime, Ext: ext, Kind: relay.TypeVideo}
}

// be16, le16 and so on read a number of a header.
var (
	be16 = binary.BigEndian.Uint16
	be32 = binary.BigEndian.Uint32
	be64 = binary.BigEndian.Uint64
	le16 = binary.LittleEndian.Uint16
	le32 = binary.LittleEndian.Uint32
	le64 = binary.LittleEndian.Uint64
)

// octets is the type of a file about which nothing is known.
const octets = "application/octet-stream"
