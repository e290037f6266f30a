package sniff

import (
	"bytes"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	oggHeader  = 27                 // bytes before a page's segment table
	oggMaxPage = 27 + 255 + 255*255 // bytes of the largest page: the last page's header is not further from the end
	opusRate   = 48000              // granules of Opus a second, whatever the rate of the recording
	// maxPlay is the longest duration that is believed; a page that claims more is skipped. Even at its lowest rate,
	// Opus fits no more into the largest file.
	maxPlay = 240 * time.Hour
)

// ogg identifies an Ogg file by its first page, which names its content.
func (f file) ogg(head []byte) (relay.FileFacts, bool) {
	if len(head) < oggHeader || string(head[:5]) != "OggS\x00" {
		return relay.FileFacts{}, false
	}
	packet := head[min(len(head), oggHeader+int(head[26])):]
	switch {
	case bytes.HasPrefix(packet, []byte("OpusHead")):
		facts := audio(relay.FormatOpus, "audio/ogg", ".ogg")
		if len(packet) >= 12 {
			facts.Duration = f.opusPlays(le32(head[14:]), uint64(le16(packet[10:])))
		}
		return facts, true
	case bytes.HasPrefix(packet, []byte("\x80theora")), bytes.HasPrefix(packet, []byte("\x01video")):
		return video(relay.FormatOgg, "video/ogg", ".ogv"), true
	}
	return audio(relay.FormatOgg, "audio/ogg", ".ogg"), true
}

// opusPlays returns how long a stream plays: its last page's granule, minus the part at the beginning that a player
// skips; 0: not known.
func (f file) opusPlays(serial uint32, skip uint64) time.Duration {
	from := max(0, f.size-oggMaxPage)
	tail := f.at(from, oggMaxPage)
	for {
		i := bytes.LastIndex(tail, []byte("OggS\x00"))
		if i < 0 {
			return 0
		}
		page := tail[i:]
		tail = tail[:i+4] // without the last byte of "OggS\x00", so that this page is not found again
		if len(page) < oggHeader || le32(page[14:]) != serial {
			continue
		}
		granule := le64(page[6:])
		if granule == 1<<64-1 || granule <= skip { // no packet ends here; nothing to hear
			continue
		}
		if granule -= skip; granule > uint64(maxPlay/time.Second)*opusRate {
			continue
		}
		return time.Duration(granule/opusRate)*time.Second + time.Duration(granule%opusRate)*time.Second/opusRate
	}
}
