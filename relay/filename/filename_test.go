package filename

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestClean(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"as it is":               {"Übersicht (1) [neu].pdf", "Übersicht (1) [neu].pdf"},
		"a path":                 {"../../etc/passwd", "passwd"},
		"a path of Windows":      {`C:\temp\a.txt`, "a.txt"},
		"only a path":            {"/etc/", ""},
		"dots":                   {"..", ""},
		"nothing":                {"", ""},
		"a hidden file":          {".env", ".env"},
		"dots and blanks behind": {" a.txt . ", "a.txt"},
		"lines":                  {"a\r\nSet-Cookie: x.txt", "a  Set-Cookie: x.txt"},
		"line separators":        {"a\u2028b\u2029c\u0085d", "a b c d"},
		"zeros and bells":        {"a\x00b\x07c\x7fd\x9be", "abcd\uFFFDe"},
		"turned around":          {"cod\u202efdp.exe", "codfdp.exe"},
		"turned, the new way":    {"a\u2066b\u2069\u200e\u200f\u061c.txt", "ab.txt"},
		"nothing to see":         {"\u200b\ufeff\u00ad\U000E0041", ""},
		"joined emoji":           {"👩\u200d💻.png", "👩\u200d💻.png"},
		"no text at all":         {"\xff\xfe.txt", "\uFFFD.txt"},
		"of the longest":         {strings.Repeat("ü", Max), strings.Repeat("ü", Max)},
		"longer":                 {strings.Repeat("ü", Max) + ".pdf", strings.Repeat("ü", Max-4) + ".pdf"},
		"cut behind a dot":       {"a." + strings.Repeat(" ", Max) + "b c", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clean(tc.in); got != tc.want {
				t.Errorf("Clean(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestFromHeader(t *testing.T) {
	for in, want := range map[string]string{
		"report.pdf":            "report.pdf",
		"Gr\xfc\xdfe.txt":       "Grüße.txt", // Latin-1, as urllib sends it
		"Grüße.txt":             "Grüße.txt",
		"..\\x\xfc.txt":         "xü.txt",
		"a\x85b":                "a b", // a line's end in Latin-1
		"bild \xe2\x80\xae.png": "bild .png",
	} {
		if got := FromHeader(in); got != want {
			t.Errorf("FromHeader(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	fact := func(ext string, kind relay.MessageType) relay.FileFacts { return relay.FileFacts{Ext: ext, Kind: kind} }
	ogg, jpg := fact(".ogg", relay.TypeAudio), fact(".jpg", relay.TypePhoto)
	pdf, zip := fact(".pdf", relay.TypeDocument), fact(".zip", relay.TypeDocument)
	text, other := fact(".txt", relay.TypeDocument), fact("", relay.TypeDocument)
	for name, tc := range map[string]struct {
		in   string
		f    relay.FileFacts
		want string
	}{
		"it fits":                        {"a.jpg", jpg, "a.jpg"},
		"another way to write it":        {"a.JPEG", jpg, "a.JPEG"},
		"what gateways refuse":           {"voice.oga", ogg, "voice.ogg"},
		"the same, newer":                {"voice.opus", ogg, "voice.ogg"},
		"another picture":                {"a.png", jpg, "a.jpg"},
		"a picture that is a page":       {"a.jpg", pdf, "a.pdf"},
		"no extension":                   {"report", pdf, "report.pdf"},
		"an unknown extension":           {"report.v2", pdf, "report.v2.pdf"},
		"a program that is a picture":    {"a.exe", jpg, "a.exe.jpg"},
		"a kind of archive":              {"app.apk", zip, "app.apk"},
		"an archive without extension":   {"stuff", zip, "stuff.zip"},
		"an archive that claims to sing": {"song.mp3", zip, "song.zip"},
		"a kind of text":                 {"main.go", text, "main.go"},
		"a text without extension":       {"Makefile", text, "Makefile"},
		"a text that claims to sing":     {"song.mp3", text, "song.txt"},
		"what nobody knows":              {"a.blend", other, "a.blend"},
		"what claims to be a picture":    {"a.png", other, "a.bin"},
		"no name":                        {"", jpg, "photo.jpg"},
		"no name and no format":          {"..", other, "document.bin"},
		"nothing at all":                 {"", relay.FileFacts{}, "document.bin"},
		"only an extension":              {".png", jpg, "document.jpg"},
		"too long to append":             {strings.Repeat("x", Max), pdf, strings.Repeat("x", Max-4) + ".pdf"},
		"a path":                         {"/tmp/x/../a.oga", ogg, "a.ogg"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Fit(tc.in, tc.f); got != tc.want {
				t.Errorf("Fit(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestShow(t *testing.T) {
	for in, want := range map[string]string{
		"report [final].pdf":                 "report (final).pdf",
		"a]\n[Video: gone":                   "a) (Video: gone",
		"a］\u2028［File: b":                   "a) (File: b",
		"x\u202e\u0000y\ttab":                "xy tab",
		"larger than the 20 MB Telegram has": "larger than the 20 MB Telegram has",
	} {
		if got := Show(in); got != want {
			t.Errorf("Show(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDisposition(t *testing.T) {
	for in, want := range map[string]string{
		"report.pdf":         `attachment; filename*=UTF-8''report.pdf; filename="report.pdf"`,
		"Grüße an alle.txt":  `attachment; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20an%20alle.txt; filename="Gr_e an alle.txt"`,
		"отчёт.pdf":          `attachment; filename*=UTF-8''%D0%BE%D1%82%D1%87%D1%91%D1%82.pdf; filename="file.pdf"`,
		`a";filename="b.exe`: `attachment; filename*=UTF-8''a%22%3Bfilename%3D%22b.exe; filename="a_filename_b.exe"`,
		"photo.фото":         `attachment; filename*=UTF-8''photo.%D1%84%D0%BE%D1%82%D0%BE; filename="photo"`,
		"":                   `attachment; filename*=UTF-8''; filename="file"`,
		"100%.txt":           `attachment; filename*=UTF-8''100%25.txt; filename="100_.txt"`,
	} {
		if got := Disposition(in); got != want {
			t.Errorf("Disposition(%q)\n got %s\nwant %s", in, got, want)
		}
	}
}

// FuzzNames is every invariant of the package.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "a\u202eb.oga", "]\n[", "\xff", ".png", strings.Repeat("é", 300) + ".jpeg", `";filename=`, "x.\u200b", "a. .b"} {
		f.Add(s, ".ogg")
	}
	f.Fuzz(func(t *testing.T, name, ext string) {
		clean := Clean(name)
		facts := relay.FileFacts{Kind: relay.TypeDocument}
		if own[ext] || ext == ".txt" || ext == ".zip" {
			facts.Ext = ext
		}
		fit := Fit(name, facts)
		for _, s := range []string{clean, fit, FromHeader(name)} {
			for _, r := range s {
				if r == '/' || r == '\\' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
					t.Errorf("%q of %q has %q", s, name, r)
				}
			}
			if n := utf8.RuneCountInString(s); n > Max || !utf8.ValidString(s) || s == "." || s == ".." {
				t.Errorf("%q of %q, %d characters", s, name, n)
			}
			if Clean(s) != s {
				t.Errorf("%q of %q is not clean: %q", s, name, Clean(s))
			}
		}
		if fit == "" || Fit(fit, facts) != fit {
			t.Errorf("Fit(%q) = %q, and of that %q", name, fit, Fit(fit, facts))
		}
		if strings.ContainsAny(Show(name), "[]\n\r") {
			t.Errorf("Show(%q) = %q", name, Show(name))
		}
		ascii := ASCII(fit)
		for _, r := range ascii {
			if !plain(r) && r != ' ' {
				t.Errorf("ASCII(%q) = %q", fit, ascii)
			}
		}
		if d := Disposition(fit); strings.Count(d, "filename=") != 1 || !strings.HasSuffix(d, `"`+ascii+`"`) {
			t.Errorf("Disposition(%q) = %s", fit, d)
		}
	})
}
