package sniff

import (
	"bytes"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxTags is how many ID3 tags are skipped.
const maxTags = 4

// mpegAudio identifies MP3 and raw AAC, with or without ID3 tags before them, and FLAC behind tags. Other files may
// begin like a frame, too. So without a tag a second frame must follow the first, or the first must be the whole file.
func (f file) mpegAudio(head []byte) (relay.FileFacts, bool) {
	off, tagged := int64(0), false
	for range maxTags {
		b := f.at(off, 10)
		if len(b) < 10 || string(b[:3]) != "ID3" {
			break
		}
		tagged = true
		off += 10 + int64(b[6]&0x7f)<<21 + int64(b[7]&0x7f)<<14 + int64(b[8]&0x7f)<<7 + int64(b[9]&0x7f)
	}
	if tagged {
		b := f.at(off, 7)
		switch {
		case bytes.HasPrefix(b, []byte("fLaC")):
			return audio("", "audio/flac", ".flac"), true
		case adtsFrame(b) > 0:
			return audio("", "audio/aac", ".aac"), true
		}
		return audio(relay.FormatMP3, "audio/mpeg", ".mp3"), true
	}
	for _, sort := range []struct {
		frame func([]byte) int64
		facts relay.FileFacts
	}{
		{adtsFrame, audio("", "audio/aac", ".aac")},
		{mp3Frame, audio(relay.FormatMP3, "audio/mpeg", ".mp3")},
	} {
		n := sort.frame(head)
		if n > 0 && (n == f.size || sort.frame(f.at(n, 7)) > 0) {
			return sort.facts, true
		}
	}
	return relay.FileFacts{}, false
}

// adtsFrame returns the length of the AAC frame at the beginning of b; 0: there is none.
func adtsFrame(b []byte) int64 {
	if len(b) < 7 || b[0] != 0xff || b[1]&0xf6 != 0xf0 {
		return 0
	}
	n := int64(b[3]&3)<<11 | int64(b[4])<<3 | int64(b[5])>>5
	if n < 7 {
		return 0
	}
	return n
}

// bitrates are those of layer III in kbit/s: of MPEG 1, and of 2 and 2.5.
var bitrates = [2][16]int64{
	{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0},
}

// rates are the samples a second of MPEG 1; MPEG 2 has half of them, 2.5 a quarter.
var rates = [4]int64{44100, 48000, 32000, 0}

// mp3Frame returns the length of the layer III frame at the beginning of b; 0: there is none.
func mp3Frame(b []byte) int64 {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 || b[1]>>1&3 != 1 {
		return 0
	}
	version := b[1] >> 3 & 3 // 3: MPEG 1, 2: MPEG 2, 0: MPEG 2.5
	rate := rates[b[2]>>2&3]
	if version == 1 || rate == 0 {
		return 0
	}
	table, samples := 0, int64(144)
	if version != 3 {
		table, samples, rate = 1, 72, rate/2
	}
	if version == 0 {
		rate /= 2
	}
	bits := bitrates[table][b[2]>>4]
	if bits == 0 {
		return 0
	}
	return samples*bits*1000/rate + int64(b[2]>>1&1)
}
