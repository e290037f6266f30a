package sniff_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
)

// others are formats in as many bytes as file-type wants to see.
func others() map[string]string {
	box := func(name, content string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(8+len(content)))) + name + content
	}
	mp3 := "\xff\xfb\x90\x00" + strings.Repeat("\x00", 413)
	pad := strings.Repeat("\x00", 600)
	ebml := func(doctype, codec string) string {
		return "\x1a\x45\xdf\xa3" + string([]byte{0x80 | byte(3+len(doctype))}) + "\x42\x82" + string([]byte{0x80 | byte(len(doctype))}) + doctype +
			"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" + codec + pad
	}
	return map[string]string{
		"jpeg":       "\xff\xd8\xff\xe0\x00\x10JFIF\x00" + pad,
		"png":        "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x00IDAT" + pad,
		"gif":        "GIF89a\x01\x00\x01\x00" + pad,
		"webp":       "RIFF\x24\x00\x00\x00WEBPVP8 " + pad,
		"wav":        "RIFF\x24\x00\x00\x00WAVEfmt " + pad,
		"avi":        "RIFF\x24\x00\x00\x00AVI LIST" + pad,
		"mp4":        box("ftyp", "isom\x00\x00\x02\x00isomiso2") + pad,
		"m4a":        box("ftyp", "M4A \x00\x00\x02\x00isomiso2") + pad,
		"mov":        box("ftyp", "qt  \x00\x00\x02\x00qt  ") + pad,
		"heic":       box("ftyp", "heic\x00\x00\x00\x00mif1heic") + pad,
		"avif":       box("ftyp", "avif\x00\x00\x00\x00avifmif1") + pad,
		"webm":       ebml("webm", "V_VP9"),
		"mkv":        ebml("matroska", "V_VP9"),
		"mp3":        mp3 + mp3 + mp3,
		"tagged mp3": "ID3\x04\x00\x00\x00\x00\x00\x0a" + strings.Repeat("\x00", 10) + mp3 + mp3,
		"aac":        strings.Repeat("\xff\xf1\x50\x80\x40\x1f\xfc"+strings.Repeat("\x00", 505), 3),
		"flac":       "fLaC\x00\x00\x00\x22" + pad,
		"amr":        "#!AMR\n" + pad,
		"midi":       "MThd\x00\x00\x00\x06" + pad,
		"pdf":        "%PDF-1.7\n" + pad,
		"gzip":       "\x1f\x8b\x08\x00" + pad,
		"xz":         "\xfd7zXZ\x00" + pad,
		"zstd":       "\x28\xb5\x2f\xfd" + pad,
		"7z":         "7z\xbc\xaf\x27\x1c" + pad,
		"rar":        "Rar!\x1a\x07\x01\x00" + pad,
		"tiff":       "II*\x00\x08\x00\x00\x00\x00\x00" + pad,
		"psd":        "8BPS\x00\x01" + pad,
		"rtf":        "{\\rtf1 " + pad,
		"flv":        "FLV\x01" + pad,
		"zip":        "PK\x03\x04\x14\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 16) + "\x05\x00\x00\x00a.txt" + pad,
		"opus":       string(opus(time.Second)),
		"text":       "just words" + strings.Repeat(" and more", 99),
		"zeros":      pad,
	}
}

// spelled are types that file-type spells in another way than we do; what stands here is the same.
var spelled = map[string]string{
	"audio/x-m4a": "audio/mp4", "audio/ogg; codecs=opus": "audio/ogg", "image/apng": "image/png", "video/vnd.avi": "video/x-msvideo",
	"audio/x-flac": "audio/flac", "video/matroska": "video/x-matroska", "audio/vnd.wave": "audio/wav",
}

// TestFileTypeAgrees: the sniffing that most of npm uses finds what we find.
func TestFileTypeAgrees(t *testing.T) {
	files := map[string][]byte{}
	for name, content := range others() {
		files[name] = []byte(content)
	}
	type found struct{ Ext, Mime string }
	theirs := map[string]*found{}
	platformtest.AskPartner(t, "file-type/index.js", `
		const out = {};
		for (const [name, content] of Object.entries(input)) {
			out[name] = await partner.fileTypeFromBuffer(Buffer.from(content, 'base64')) ?? null;
		}
		return out;`, files, &theirs)
	if len(theirs) != len(files) {
		t.Fatalf("%d answers for %d files", len(theirs), len(files))
	}
	for name, content := range others() {
		ours := sniff.Of(strings.NewReader(content), int64(len(content)))
		their := theirs[name]
		if their == nil { // it knows no texts
			if ours.Mime != "text/plain" && ours.Mime != "application/octet-stream" {
				t.Errorf("%s: we say %s, file-type does not know it", name, ours.Mime)
			}
			continue
		}
		mime := their.Mime
		if same, ok := spelled[mime]; ok {
			mime = same
		}
		if ours.Mime != mime {
			t.Errorf("%s: we say %s, file-type %s", name, ours.Mime, their.Mime)
		}
	}
}

// opus is Ogg Opus of that length, with checksums, in pages of a second.
func opus(plays time.Duration) []byte {
	const skip, rate, frame = 312, 48000, 960
	var out []byte
	n := uint32(0)
	page := func(granule uint64, flags byte, packets ...[]byte) {
		b := append([]byte("OggS\x00"), flags)
		b = binary.LittleEndian.AppendUint64(b, granule)
		b = binary.LittleEndian.AppendUint32(b, 0x1234)
		b = binary.LittleEndian.AppendUint32(b, n)
		b = append(b, 0, 0, 0, 0, byte(len(packets)))
		for _, p := range packets {
			b = append(b, byte(len(p)))
		}
		for _, p := range packets {
			b = append(b, p...)
		}
		binary.LittleEndian.PutUint32(b[22:], oggSum(b))
		out, n = append(out, b...), n+1
	}
	page(0, 2, []byte("OpusHead\x01\x01\x38\x01\x80\xbb\x00\x00\x00\x00\x00"))
	page(0, 0, []byte("OpusTags\x04\x00\x00\x00test\x00\x00\x00\x00"))
	end := uint64(plays*rate/time.Second) + skip
	for at := uint64(0); at < end; {
		var packets [][]byte
		for range 50 {
			packets = append(packets, append([]byte{0x08}, make([]byte, 39)...)) // 20 ms of SILK
		}
		at = min(at+50*frame, end)
		flags := byte(0)
		if at == end {
			flags = 4
		}
		page(at, flags, packets...)
	}
	return out
}

// oggSum is the checksum of a page.
func oggSum(page []byte) (sum uint32) {
	for _, b := range page {
		sum ^= uint32(b) << 24
		for range 8 {
			if sum&(1<<31) != 0 {
				sum = sum<<1 ^ 0x04c11db7
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}

// TestMusicMetadataAgrees: a reader of music that others wrote hears Ogg Opus for as long as we do.
func TestMusicMetadataAgrees(t *testing.T) {
	lengths := []time.Duration{20 * time.Millisecond, 999 * time.Millisecond, 7 * time.Second, 61500 * time.Millisecond, 10 * time.Minute}
	var files [][]byte
	for _, l := range lengths {
		files = append(files, opus(l))
	}
	var theirs []struct {
		Codec    string
		Duration float64
	}
	platformtest.AskPartner(t, "music-metadata/lib/index.js", `
		const out = [];
		for (const content of input) {
			const m = await partner.parseBuffer(Buffer.from(content, 'base64'), {mimeType: 'audio/ogg'}, {duration: true});
			out.push({codec: m.format.codec, duration: m.format.duration});
		}
		return out;`, files, &theirs)
	for i, l := range lengths {
		ours := sniff.Of(strings.NewReader(string(files[i])), int64(len(files[i])))
		if ours.Format != relay.FormatOpus || ours.Duration != l {
			t.Errorf("%s: we hear %s of %s", l, ours.Duration, ours.Format)
		}
		if math.Abs(theirs[i].Duration-ours.Duration.Seconds()) > 0.02 || theirs[i].Codec != "Opus" {
			t.Errorf("%s: we hear %s, music-metadata %f s of %s", l, ours.Duration, theirs[i].Duration, theirs[i].Codec)
		}
	}
}
