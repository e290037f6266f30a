package sniff

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

func of(s string) relay.FileFacts { return Of(strings.NewReader(s), int64(len(s))) }

// box is a box of an MP4.
func box(name, content string) string {
	n := 8 + len(content)
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + name + content
}

func track(handler string) string {
	return box("trak", box("tkhd", "....")+box("mdia", box("mdhd", "....")+box("hdlr", "\x00\x00\x00\x00\x00\x00\x00\x00"+handler+"....")))
}

// mp3 is a frame of 417 bytes: MPEG 1, 128 kbit/s, 44,100 Hz.
var mp3 = "\xff\xfb\x90\x00" + strings.Repeat("\x00", 413)

func TestFormats(t *testing.T) {
	doc, pic, snd, film := relay.TypeDocument, relay.TypePhoto, relay.TypeAudio, relay.TypeVideo
	riff := func(kind string) string { return "RIFF\x24\x00\x00\x00" + kind }
	zip := func(name string) string {
		return "PK\x03\x04" + strings.Repeat("\x00", 26) + name
	}
	for name, tc := range map[string]struct {
		bytes     string
		format    relay.Format
		mime, ext string
		kind      relay.MessageType
	}{
		"jpeg":            {"\xff\xd8\xff\xe0", relay.FormatJPEG, "image/jpeg", ".jpg", pic},
		"png":             {"\x89PNG\r\n\x1a\n", relay.FormatPNG, "image/png", ".png", pic},
		"gif":             {"GIF89a", relay.FormatGIF, "image/gif", ".gif", pic},
		"webp":            {riff("WEBPVP8 "), relay.FormatWebP, "image/webp", ".webp", pic},
		"wav":             {riff("WAVEfmt "), relay.FormatOther, "audio/wav", ".wav", snd},
		"avi":             {riff("AVI LIST"), relay.FormatOther, "video/x-msvideo", ".avi", film},
		"riff of another": {riff("\x00\x01\x02\x03"), relay.FormatOther, octets, "", doc},
		"aiff":            {"FORM\x00\x00\x00\x00AIFF", relay.FormatOther, "audio/aiff", ".aif", snd},
		"opus":            {voice(960), relay.FormatOpus, "audio/ogg", ".ogg", snd},
		"vorbis":          {page(1, 0, 2, "\x01vorbis"), relay.FormatOgg, "audio/ogg", ".ogg", snd},
		"theora":          {page(1, 0, 2, "\x80theora"), relay.FormatOgg, "video/ogg", ".ogv", film},
		"mp4":             {box("ftyp", "isom\x00\x00\x02\x00") + box("moov", track("vide")+track("soun")), relay.FormatMP4, "video/mp4", ".mp4", film},
		"mp4 of sound": {box("ftyp", "mp42\x00\x00\x02\x00") + box("mdat", strings.Repeat("x", 20000)) + box("moov", track("soun")),
			relay.FormatM4A, "audio/mp4", ".m4a", snd},
		"m4a":           {box("ftyp", "M4A \x00\x00\x02\x00"), relay.FormatM4A, "audio/mp4", ".m4a", snd},
		"mov":           {box("ftyp", "qt  \x00\x00\x02\x00"), relay.FormatOther, "video/quicktime", ".mov", film},
		"3gp":           {box("ftyp", "3gp5\x00\x00\x02\x00") + box("moov", track("vide")), relay.FormatOther, "video/3gpp", ".3gp", film},
		"heic":          {box("ftyp", "heic\x00\x00\x02\x00"), relay.FormatOther, "image/heic", ".heic", doc},
		"avif":          {box("ftyp", "avif\x00\x00\x02\x00"), relay.FormatOther, "image/avif", ".avif", doc},
		"webm":          {"\x1a\x45\xdf\xa3....webm" + strings.Repeat(".", 99) + "V_VP9A_OPUS", relay.FormatWebM, "video/webm", ".webm", film},
		"webm of sound": {"\x1a\x45\xdf\xa3....webm" + strings.Repeat(".", 99) + "A_OPUS", relay.FormatWebM, "audio/webm", ".webm", snd},
		"mkv":           {"\x1a\x45\xdf\xa3....matroska", relay.FormatOther, "video/x-matroska", ".mkv", film},
		"mp3":           {mp3 + mp3, relay.FormatMP3, "audio/mpeg", ".mp3", snd},
		"mp3 of one":    {mp3, relay.FormatMP3, "audio/mpeg", ".mp3", snd},
		"half an mp3":   {mp3 + "\x00\x00\x00\x00\x00\x00\x00", relay.FormatOther, octets, "", doc},
		"tagged mp3":    {"ID3\x04\x00\x00\x00\x00\x00\x02xx" + mp3, relay.FormatMP3, "audio/mpeg", ".mp3", snd},
		"tagged flac":   {"ID3\x04\x00\x00\x00\x00\x00\x02xxfLaC...", relay.FormatOther, "audio/flac", ".flac", snd},
		"aac":           {"\xff\xf1\x50\x80\x01\x1f\xfc.\xff\xf1\x50\x80\x01\x1f\xfc.", relay.FormatOther, "audio/aac", ".aac", snd},
		"flac":          {"fLaC\x00", relay.FormatOther, "audio/flac", ".flac", snd},
		"pdf":           {"%PDF-1.7\n", relay.FormatOther, "application/pdf", ".pdf", doc},
		"zip":           {zip("a.txt"), relay.FormatOther, "application/zip", ".zip", doc},
		"docx": {zip("[Content_Types].xml") + strings.Repeat("\x00", 9000) + "word/document.xml", relay.FormatOther,
			"application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".docx", doc},
		"epub":             {zip("mimetypeapplication/epub+zip"), relay.FormatOther, "application/epub+zip", ".epub", doc},
		"tar":              {strings.Repeat("\x00", 257) + "ustar", relay.FormatOther, "application/x-tar", ".tar", doc},
		"lottie sticker":   {"\x1f\x8b\x08\x00", relay.FormatOther, "application/gzip", ".gz", doc},
		"text":             {"hello, wörld\n\t", relay.FormatOther, "text/plain", ".txt", doc},
		"svg is a text":    {"<svg onload='x'></svg>", relay.FormatOther, "text/plain", ".txt", doc},
		"html is a text":   {"<!doctype html><script>", relay.FormatOther, "text/plain", ".txt", doc},
		"cut text":         {strings.Repeat("x", headBytes-1) + "ü", relay.FormatOther, "text/plain", ".txt", doc},
		"half a character": {"x\xc3", relay.FormatOther, octets, "", doc},
		"latin-1":          {"caf\xe9", relay.FormatOther, octets, "", doc},
		"utf-16":           {"\xff\xfeh\x00i\x00", relay.FormatOther, octets, "", doc},
		"zeros":            {"abc\x00", relay.FormatOther, octets, "", doc},
		"nothing":          {"", relay.FormatOther, octets, "", doc},
	} {
		t.Run(name, func(t *testing.T) {
			got := of(tc.bytes)
			got.Duration, got.Width, got.Height = 0, 0, 0
			want := relay.FileFacts{Format: tc.format, Mime: tc.mime, Ext: tc.ext, Kind: tc.kind, Size: int64(len(tc.bytes))}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestSizeOfPictures(t *testing.T) {
	segment := "\xff\xe1\x00\x04ab" // metadata
	sof := "\xff\xc2\x00\x11\x08\x02\x58\x03\x20\x03"
	for name, tc := range map[string]struct {
		bytes string
		w, h  int
	}{
		"png":                 {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x03\x20\x00\x00\x02\x58", 800, 600},
		"png beyond measure":  {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xff\xff\xff\x00\x00\x02\x58", 0, 0},
		"png without a width": {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x00\x00\x00\x02\x58", 0, 0},
		"gif":                 {"GIF89a\x20\x03\x58\x02", 800, 600},
		"jpeg":                {"\xff\xd8" + segment + sof, 800, 600},
		"jpeg, far behind":    {"\xff\xd8\xff\xe1\xff\xff" + strings.Repeat("x", 65533) + "\xff" + sof, 800, 600},
		"jpeg, cut":           {"\xff\xd8" + segment + sof[:6], 0, 0},
		"jpeg, only metadata": {"\xff\xd8" + strings.Repeat(segment, 1000) + sof, 0, 0},
		"jpeg, picture first": {"\xff\xd8\xff\xda\x00\x02" + sof, 0, 0},
		"webp, lossy":         {"RIFF....WEBPVP8 ....\x00\x00\x00\x9d\x01\x2a\x20\x03\x58\x02", 800, 600},
		"webp, lossless":      {"RIFF....WEBPVP8L....\x2f\x1f\xc3\x95\x00.....", 800, 600},
		"webp, extended":      {"RIFF....WEBPVP8X....\x00\x00\x00\x00\x1f\x03\x00\x57\x02\x00", 800, 600},
		"webp, cut":           {"RIFF....WEBPVP8X....\x00\x00", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(tc.bytes); got.Width != tc.w || got.Height != tc.h {
				t.Errorf("got %d × %d, want %d × %d", got.Width, got.Height, tc.w, tc.h)
			}
		})
	}
}

// page is a page of an Ogg file.
func page(serial byte, granule uint64, flags byte, packet string) string {
	b := []byte("OggS\x00")
	b = append(b, flags)
	for i := range 8 {
		b = append(b, byte(granule>>(8*i)))
	}
	b = append(b, serial, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, byte(len(packet)))
	return string(b) + packet
}

// voice is Ogg Opus whose pages have those granules.
func voice(granules ...uint64) string {
	var b strings.Builder
	b.WriteString(page(1, 0, 2, "OpusHead\x01\x01\x38\x01\x80\xbb\x00\x00\x00\x00\x00")) // skips 312
	b.WriteString(page(1, 0, 0, "OpusTags"))
	for _, g := range granules {
		b.WriteString(page(1, g, 0, strings.Repeat("x", 200)))
	}
	return b.String()
}

func TestDurationOfOpus(t *testing.T) {
	const second = opusRate
	for name, tc := range map[string]struct {
		bytes string
		want  time.Duration
	}{
		"two seconds":                   {voice(second, 2*second+312), 2 * time.Second},
		"a long one":                    {voice(second) + strings.Repeat("x", 100<<10) + page(1, 90*second+312, 4, "end"), 90 * time.Second},
		"its end lies beyond the tail":  {voice(second) + strings.Repeat("x", 100<<10), 0},
		"another stream ends last":      {voice(second+312) + page(2, 9*second, 0, "other"), time.Second},
		"no packet ends on the last":    {voice(second+312) + page(1, 1<<64-1, 0, "begins"), time.Second},
		"a granule before the audible":  {voice(312), 0},
		"as long as is believed":        {voice(240*3600*second + 312 - 1), 240*time.Hour - 20834*time.Nanosecond},
		"a granule beyond measure":      {voice(1 << 60), 0},
		"the last page is cut":          {voice(second+312) + page(1, 9*second, 0, "")[:20], time.Second},
		"only the first page":           {page(1, 0, 2, "OpusHead\x01\x01\x38\x01"), 0},
		"the first page is cut":         {page(1, 0, 2, "OpusHead"), 0},
		"a capture pattern in a packet": {voice(second+312) + page(1, 2*second+312, 0, "xxOggSxx"), 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(tc.bytes); got.Duration != tc.want || got.Format != relay.FormatOpus {
				t.Errorf("got %s of %s, want %s of opus", got.Duration, got.Format, tc.want)
			}
		})
	}
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("no disk") }

func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	want := relay.FileFacts{Format: relay.FormatOther, Mime: octets, Kind: relay.TypeDocument, Size: 5}
	if got := Of(broken{}, 5); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// counting tells how much is read.
type counting struct {
	*bytes.Reader
	calls int
	bytes int64
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.calls++
	c.bytes += int64(len(b))
	return c.Reader.ReadAt(b, off)
}

// TestReadingIsBounded is invariant 2: files that lead on and on.
func TestReadingIsBounded(t *testing.T) {
	deep := box("moov", strings.Repeat(box("trak", strings.Repeat(box("mdia", strings.Repeat(box("hdlr", ""), 90)), 90)), 90))
	for name, s := range map[string]string{
		"filling of a JPEG": "\xff\xd8\xff" + strings.Repeat("\xff", 25<<20),
		"boxes":             box("ftyp", "isom....") + deep,
		"tags":              strings.Repeat("ID3\x04\x00\x00\x00\x00\x00\x00", 1<<20),
		"pages":             page(1, 0, 2, "OpusHead\x01\x01\x38\x01") + strings.Repeat("OggS\x00", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			c := &counting{Reader: bytes.NewReader([]byte(s))}
			Of(c, int64(len(s)))
			if c.calls > 1000 || c.bytes > 1<<20 {
				t.Errorf("%d reads of %d bytes", c.calls, c.bytes)
			}
		})
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range []string{voice(960, 48312), mp3 + mp3, "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x03\x20\x00\x00\x02\x58",
		box("ftyp", "isom....") + box("moov", track("vide")), "RIFF....WEBPVP8X....\x00\x00\x00\x00\x1f\x03\x00\x57\x02\x00", "\xff\xd8\xff\xe1\x00\x04ab\xff\xc0",
		"PK\x03\x04", "hello", "ID3\x04\x00\x00\x00\x00\x00\x02xx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Of(bytes.NewReader(b), int64(len(b)))
		switch {
		case got.Format == "" || got.Mime == "" || got.Kind == "":
			t.Errorf("lacks something: %+v", got)
		case got.Size != int64(len(b)) || got.Width < 0 || got.Height < 0 || got.Duration < 0 || got.Duration > maxPlay:
			t.Errorf("wrong figures: %+v", got)
		case (got.Kind == relay.TypePhoto) != (got.Format == relay.FormatJPEG || got.Format == relay.FormatPNG ||
			got.Format == relay.FormatGIF || got.Format == relay.FormatWebP):
			t.Errorf("a photo, or none: %+v", got)
		case got.Ext == ".oga" || got.Ext != "" && got.Ext[0] != '.':
			t.Errorf("extension %q", got.Ext)
		}
	})
}

// FuzzOgg puts what comes behind the first page of a voice note.
func FuzzOgg(f *testing.F) {
	f.Add([]byte(voice(960, 48312)), uint32(1))
	f.Add([]byte(page(1, 1<<63, 0, "x")), uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, serial uint32) {
		got := file{bytes.NewReader(b), int64(len(b))}.opusPlays(serial, 312)
		if got < 0 || got > maxPlay {
			t.Errorf("plays %s", got)
		}
	})
}
