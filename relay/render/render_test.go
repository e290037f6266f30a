package render

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// The files that the tests are made of: what the network says, and what the bytes say.
var (
	jpg  = relay.FileFacts{Format: relay.FormatJPEG, Mime: "image/jpeg", Ext: ".jpg", Kind: relay.TypePhoto, Size: 1000}
	webp = relay.FileFacts{Format: relay.FormatWebP, Mime: "image/webp", Ext: ".webp", Kind: relay.TypePhoto, Size: 1000}
	opus = relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg", Ext: ".ogg", Kind: relay.TypeAudio, Size: 8123}
	mp3  = relay.FileFacts{Format: relay.FormatMP3, Mime: "audio/mpeg", Ext: ".mp3", Kind: relay.TypeAudio, Size: 1000}
	mp4  = relay.FileFacts{Format: relay.FormatMP4, Mime: "video/mp4", Ext: ".mp4", Kind: relay.TypeVideo, Size: 1000}
	pdf  = relay.FileFacts{Format: relay.FormatOther, Mime: "application/pdf", Ext: ".pdf", Kind: relay.TypeDocument, Size: 1000}
	text = relay.FileFacts{Format: relay.FormatOther, Mime: "text/plain", Ext: ".txt", Kind: relay.TypeDocument, Size: 1000}
	junk = relay.FileFacts{Format: relay.FormatOther, Mime: "application/octet-stream", Kind: relay.TypeDocument, Size: 1000}
)

// held is a file at https://h/1.
func held(kind relay.MessageType, name string, f relay.FileFacts) File {
	return File{Held: relay.Held{Attachment: relay.Attachment{Kind: kind, Name: name, Size: f.Size}, State: relay.MediaHeld, Facts: f}, URL: "https://h/1"}
}

// textFile is a text file that was read.
func textFile(name, content string) File {
	f := held(relay.TypeDocument, name, text)
	f.Facts.Size, f.Content = int64(len(content)), []byte(content)
	return f
}

func missed(kind relay.MessageType, name string, size int64, state relay.MediaState, why string) File {
	return File{Held: relay.Held{Attachment: relay.Attachment{Kind: kind, Name: name, Size: size}, State: state, Why: why}}
}

func TestWhatAGatewayReads(t *testing.T) {
	photo, voice := held(relay.TypePhoto, "", jpg), held(relay.TypeVoice, "", opus)
	report := held(relay.TypeDocument, "report.pdf", pdf)
	notes := textFile("notes.txt", "one\ntwo\n")
	for name, tc := range map[string]struct {
		was   relay.MessageType // text, if empty
		text  string
		files []File
		o     Options
		kind  relay.MessageType
		want  string
		media int
	}{
		"a photo":                           {files: []File{photo}, kind: relay.TypePhoto, media: 1},
		"a photo with words":                {text: "look", files: []File{photo}, kind: relay.TypePhoto, want: "look", media: 1},
		"a voice note":                      {files: []File{voice}, kind: relay.TypeVoice, media: 1},
		"sound":                             {files: []File{held(relay.TypeAudio, "song.mp3", mp3)}, kind: relay.TypeAudio, want: "[File: song.mp3]", media: 1},
		"Ogg that nobody called a note":     {files: []File{held(relay.TypeDocument, "memo.oga", opus)}, kind: relay.TypeAudio, want: "[File: memo.ogg]", media: 1},
		"a note that is no sound":           {files: []File{held(relay.TypeVoice, "", mp4)}, kind: relay.TypeVideo, media: 1},
		"a film":                            {files: []File{held(relay.TypeVideo, "a.mp4", mp4)}, kind: relay.TypeVideo, media: 1},
		"a document":                        {text: "read", files: []File{report}, kind: relay.TypeDocument, want: "read\n[File: report.pdf]", media: 1},
		"a document that is a picture":      {files: []File{held(relay.TypeDocument, "a.jpg", jpg)}, kind: relay.TypePhoto, media: 1},
		"a photo that is none":              {files: []File{held(relay.TypePhoto, "a.jpg", pdf)}, kind: relay.TypeDocument, want: "[File: a.pdf]", media: 1},
		"a sticker":                         {files: []File{held(relay.TypeSticker, "", webp)}, kind: relay.TypePhoto, media: 1},
		"two photos":                        {files: []File{photo, photo}, kind: relay.TypePhoto, media: 2},
		"a photo and a page":                {text: "see", files: []File{photo, report}, kind: relay.TypeDocument, want: "see\n[File: report.pdf]", media: 2},
		"a note and a photo":                {files: []File{voice, photo}, kind: relay.TypeDocument, media: 2},
		"a command":                         {was: relay.TypeCommand, text: "/sum it", files: []File{report}, kind: relay.TypeCommand, want: "/sum it\n[File: report.pdf]", media: 1},
		"a place":                           {was: relay.TypeLocation, text: "here", kind: relay.TypeLocation, want: "here"},
		"a text file":                       {text: "sum up", files: []File{notes}, kind: relay.TypeDocument, want: "[Content of notes.txt]:\none\ntwo\n\nsum up\n[File: notes.txt]", media: 1},
		"a text file alone":                 {files: []File{notes}, kind: relay.TypeDocument, want: "[Content of notes.txt]:\none\ntwo\n\n[File: notes.txt]", media: 1},
		"a text file and a command":         {was: relay.TypeCommand, text: "/sum", files: []File{notes}, kind: relay.TypeCommand, want: "/sum\n[File: notes.txt]\n\n[Content of notes.txt]:\none\ntwo", media: 1},
		"a text file and a sort of command": {text: " /sum", files: []File{notes}, kind: relay.TypeDocument, want: " /sum\n[File: notes.txt]\n\n[Content of notes.txt]:\none\ntwo", media: 1},
		"two text files": {text: "compare", files: []File{textFile("a.md", "A"), textFile("b.md", "B")}, kind: relay.TypeDocument,
			want: "[Content of a.md]:\nA\n\n[Content of b.md]:\nB\n\ncompare\n[File: a.md]\n[File: b.md]", media: 2},
		"a mark of the byte order": {files: []File{textFile("a.csv", "\uFEFFa,b")}, kind: relay.TypeDocument, want: "[Content of a.csv]:\na,b\n\n[File: a.csv]", media: 1},
		"text in Latin-1":          {files: []File{held(relay.TypeDocument, "a.txt", junk)}, kind: relay.TypeDocument, want: "[a.txt (1000 bytes) is not shown: read the file]\n[File: a.txt]", media: 1},
		"text that was not read":   {files: []File{held(relay.TypeDocument, "a.xyz", text)}, kind: relay.TypeDocument, want: "[a.xyz (1000 bytes) is not shown: read the file]\n[File: a.xyz]", media: 1},
		"too large for the network": {files: []File{missed(relay.TypeVideo, "", 54<<20, relay.MediaTooLarge, "larger than the 20 MB Telegram gives bots")},
			kind: relay.TypeText, want: "[Video, 54 MB: larger than the 20 MB Telegram gives bots]"},
		"gone": {was: relay.TypePhoto, text: "look", files: []File{missed(relay.TypePhoto, "x.jpg", 0, relay.MediaGone, "")}, kind: relay.TypeText,
			want: "look\n[Photo: no longer to be had]"},
		"no room": {files: []File{missed(relay.TypeDocument, "a.pdf", 3<<10, relay.MediaNoSpace, "")}, kind: relay.TypeText,
			want: "[File a.pdf, 3 KB: there was no room for it]"},
		"late":                {files: []File{missed(relay.TypeVoice, "", 0, relay.MediaWaiting, "")}, kind: relay.TypeText, want: "[Voice message: it did not arrive in time]"},
		"of no kind, no name": {files: []File{missed("", "", 0, relay.MediaTooLarge, "")}, kind: relay.TypeText, want: "[File: too large]"},
		"one of two":          {files: []File{photo, missed(relay.TypeAudio, "a.mp3", 1, relay.MediaGone, "")}, kind: relay.TypePhoto, want: "[Audio a.mp3, 1 byte: no longer to be had]", media: 1},
		"no address":          {files: []File{{Held: photo.Held}}, kind: relay.TypeText, want: "[Photo, 1000 bytes: not shown]"},
		"nothing":             {kind: relay.TypeText, want: empty},
		"blanks":              {text: " \n", kind: relay.TypeText, want: empty},

		"old: a photo":               {files: []File{{Held: photo.Held}}, o: Options{TooOld: true}, kind: relay.TypeText, want: "[Photo: this gateway is too old to fetch files]"},
		"old: a photo anybody loads": {files: []File{photo}, o: Options{TooOld: true}, kind: relay.TypePhoto, media: 1},
		"old: a note with a URL":     {text: "hi", files: []File{voice}, o: Options{TooOld: true}, kind: relay.TypeText, want: "hi\n[Voice message: this gateway is too old to fetch files]"},
		"old: a page":                {files: []File{report}, o: Options{TooOld: true}, kind: relay.TypeText, want: "[File report.pdf: this gateway is too old to fetch files]"},
		"old: a text file":           {text: "sum", files: []File{notes}, o: Options{TooOld: true}, kind: relay.TypeText, want: "[Content of notes.txt]:\none\ntwo\n\nsum"},
		"old: a long text file": {files: []File{held(relay.TypeDocument, "a.txt", text)}, o: Options{TooOld: true}, kind: relay.TypeText,
			want: "[File a.txt: this gateway is too old to fetch files]"},
		"old: not there yet": {files: []File{missed(relay.TypePhoto, "", 99, relay.MediaWaiting, "")}, o: Options{TooOld: true}, kind: relay.TypeText,
			want: "[Photo: this gateway is too old to fetch files]"},
		"old: gone": {files: []File{missed(relay.TypePhoto, "", 0, relay.MediaGone, "")}, o: Options{TooOld: true}, kind: relay.TypeText, want: "[Photo: no longer to be had]"},
		"old: a command": {was: relay.TypeCommand, text: "/sum", files: []File{report}, o: Options{TooOld: true}, kind: relay.TypeCommand,
			want: "/sum\n[File report.pdf: this gateway is too old to fetch files]"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.was == "" {
				tc.was = relay.TypeText
			}
			got := Event(relay.Event{Type: tc.was, Text: tc.text}, tc.files, tc.o)
			if got.Type != tc.kind || got.Text != tc.want || len(got.Media) != tc.media {
				t.Errorf("got %s, %d files:\n%s\nwant %s, %d files:\n%s", got.Type, len(got.Media), got.Text, tc.kind, tc.media, tc.want)
			}
		})
	}
}

func TestMedia(t *testing.T) {
	v := held(relay.TypeVoice, "", opus)
	v.Caption = "listen"
	heic := relay.FileFacts{Mime: "image/heic", Ext: ".heic", Kind: relay.TypeDocument, Size: 7}
	ev := Event(relay.Event{Type: relay.TypeVoice}, []File{v, held(relay.TypeDocument, "a/../b.pdf", pdf), held(relay.TypePhoto, "c.jpg", heic)}, Options{})
	want := []relay.Media{
		{URL: "https://h/1", Mime: "audio/ogg", Kind: "voice", Size: 8123, Filename: "voice.ogg", Caption: "listen"},
		{URL: "https://h/1", Mime: "application/pdf", Kind: "document", Size: 1000, Filename: "b.pdf"},
		{URL: "https://h/1", Mime: "application/octet-stream", Kind: "document", Size: 7, Filename: "c.heic"},
	}
	if d := cmp.Diff(want, ev.Media); d != "" {
		t.Errorf("media (-want +got):\n%s", d)
	}
}

// TestNothingElseChanges: only Media, Type and Text are another event's, and the given one stays as it was.
func TestNothingElseChanges(t *testing.T) {
	ev := relay.Event{ID: "e", Type: relay.TypeText, Text: "t", MessageID: "m", Context: []relay.ContextLine{{Text: "c"}},
		Attachments: []relay.Attachment{{ID: "a"}}, Media: []relay.Media{{URL: "old"}}, Prompt: &relay.PromptResponse{PromptID: "p"}}
	before, _ := json.Marshal(ev)
	got := Event(ev, []File{held(relay.TypePhoto, "", jpg)}, Options{})
	if after, _ := json.Marshal(ev); string(after) != string(before) {
		t.Errorf("the given event is now %s", after)
	}
	got.Media, got.Type, got.Text = ev.Media, ev.Type, ev.Text
	if d := cmp.Diff(ev, got); d != "" {
		t.Errorf("changed (-was +is):\n%s", d)
	}
}

func TestInlines(t *testing.T) {
	fact := func(change func(*relay.Held)) relay.Held {
		h := held(relay.TypeDocument, "notes.txt", text).Held
		change(&h)
		return h
	}
	for name, tc := range map[string]struct {
		h    relay.Held
		want bool
	}{
		"a text":               {fact(func(*relay.Held) {}), true},
		"the longest":          {fact(func(h *relay.Held) { h.Facts.Size = MaxInline }), true},
		"a longer one":         {fact(func(h *relay.Held) { h.Facts.Size = MaxInline + 1 }), false},
		"an empty one":         {fact(func(h *relay.Held) { h.Facts.Size = 0 }), false},
		"not held":             {fact(func(h *relay.Held) { h.State = relay.MediaWaiting }), false},
		"known by its bytes":   {fact(func(h *relay.Held) { h.Name = "notes.xyz" }), true},
		"known by its name":    {fact(func(h *relay.Held) { h.Facts.Mime = "application/octet-stream"; h.Name = "Dockerfile" }), true},
		"a page":               {held(relay.TypeDocument, "a.pdf", pdf).Held, false},
		"a page called a text": {held(relay.TypeDocument, "a.txt", pdf).Held, false},
		"a picture called one": {held(relay.TypeDocument, "a.txt", jpg).Held, false},
		"a sticker":            {held(relay.TypeSticker, "a.json", text).Held, false},
	} {
		if got := Inlines(tc.h); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestBoundsOfWhatIsTold(t *testing.T) {
	full := strings.Repeat("x", MaxInline)
	ev := Event(relay.Event{}, []File{textFile("a.txt", full), textFile("b.txt", full[1:]), textFile("c.txt", "yy"), textFile("d.txt", "z")}, Options{})
	for what, want := range map[string]bool{
		"[Content of a.txt]:": true, "[Content of b.txt]:": true, "[Content of c.txt]:": false, "[Content of d.txt]:": true,
		"[c.txt (2 bytes) is not shown: read the file]": true,
	} {
		if strings.Contains(ev.Text, what) != want {
			t.Errorf("%q in the text: %t", what, !want)
		}
	}
	for name, f := range map[string]File{
		"more than was announced": textFile("a.txt", full+"x"),
		"not UTF-8 after all":     textFile("a.txt", full[:9000]+"\xff"),
	} {
		if ev := Event(relay.Event{}, []File{f}, Options{}); strings.Contains(ev.Text, "Content of") {
			t.Errorf("%s: it is told", name)
		}
	}
	long := textFile("notes.txt", "x")
	long.Facts.Size, long.Content = 350<<10, nil
	if ev := Event(relay.Event{}, []File{long}, Options{}); !strings.HasPrefix(ev.Text, "[notes.txt (350 KB) is not shown: read the file]") {
		t.Errorf("a long one: %s", ev.Text)
	}
}

// TestWhatIsGivenUp is the order: the last file's content, the others', the oldest context.
func TestWhatIsGivenUp(t *testing.T) {
	ev := relay.Event{Text: "T", Context: []relay.ContextLine{{Text: "old"}, {Text: "new"}}}
	files := []File{textFile("a.txt", "A"), textFile("b.txt", "B")}
	said := func(ev relay.Event) (out string) {
		for _, s := range []string{"Content of a.txt", "Content of b.txt", "a.txt (1 byte) is not", "b.txt (1 byte) is not"} {
			if strings.Contains(ev.Text, s) {
				out += s + ", "
			}
		}
		for _, c := range ev.Context {
			out += c.Text + ", "
		}
		if ev.ContextError {
			out += "error"
		}
		return strings.TrimSuffix(out, ", ")
	}
	for n, want := range []string{
		"Content of a.txt, Content of b.txt, old, new",
		"Content of a.txt, b.txt (1 byte) is not, old, new",
		"a.txt (1 byte) is not, b.txt (1 byte) is not, old, new",
		"a.txt (1 byte) is not, b.txt (1 byte) is not, new, error",
		"a.txt (1 byte) is not, b.txt (1 byte) is not, error",
	} {
		var tried []string
		got := Event(ev, files, Options{Fits: func(ev relay.Event) bool {
			if s := said(ev); !slices.Contains(tried, s) {
				tried = append(tried, s)
			}
			return len(tried) > n
		}})
		if said(got) != want {
			t.Errorf("after %d refusals: %s\nwant %s", n, said(got), want)
		}
	}
	if got := Event(ev, files, Options{Fits: func(relay.Event) bool { return false }}); len(got.Media) != 2 || !strings.Contains(got.Text, "T") {
		t.Errorf("what fits nowhere: %+v", got)
	}
	if len(ev.Context) != 2 || ev.ContextError {
		t.Errorf("the given event lost its context")
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{1: "1 byte", 1023: "1023 bytes", 1024: "1 KB", 1025: "2 KB", 350 << 10: "350 KB", 1<<20 - 1: "1 MB", 20<<20 + 1: "21 MB",
		1<<20 - 1024: "1023 KB"} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// FuzzEvent: no name, caption, reason or content makes a line of ours that is not, or an event that is empty.
func FuzzEvent(f *testing.F) {
	f.Add("notes.txt", "hello", "/sum", "why", byte(0))
	f.Add("a]\n[Video: gone", "\xff", "", "x]\n[y", byte(3))
	f.Add("\u202e", "", " ", "", byte(0xff))
	kinds := []relay.MessageType{relay.TypeDocument, relay.TypePhoto, relay.TypeVoice, ""}
	facts := []relay.FileFacts{text, jpg, opus, junk}
	states := []relay.MediaState{relay.MediaHeld, relay.MediaWaiting, relay.MediaGone, relay.MediaTooLarge}
	f.Fuzz(func(t *testing.T, name, content, said, why string, how byte) {
		file := held(kinds[how&3], name, facts[how>>2&3])
		file.State, file.Why, file.Content, file.Facts.Size = states[how>>4&3], why, []byte(content), int64(len(content))
		o := Options{TooOld: how>>6&1 == 1}
		ev := Event(relay.Event{Type: relay.TypeText, Text: said}, []File{file}, o)
		if strings.TrimSpace(ev.Text) == "" && len(ev.Media) == 0 {
			t.Error("the event is empty")
		}
		if len(ev.Media) > 0 && file.State != relay.MediaHeld {
			t.Error("a file is named that is not held")
		}
		if utf8.ValidString(said) && !utf8.ValidString(ev.Text) {
			t.Errorf("no UTF-8: %q", ev.Text)
		}
		if strings.HasPrefix(strings.TrimSpace(said), "/") && !strings.HasPrefix(ev.Text, said) {
			t.Errorf("a command begins with %q", ev.Text)
		}
		// With known words instead of the person's and the file's, nothing but whole lines of ours is left.
		if utf8.ValidString(content) && content != "" {
			file.Content = []byte("INSIDE")
		}
		ev = Event(relay.Event{Type: relay.TypeText, Text: "SAID"}, []File{file}, o)
		for line := range strings.Lines(ev.Text) {
			line = strings.TrimSuffix(line, "\n")
			ours := strings.HasPrefix(line, "[") && strings.Count(line, "[") == 1 && strings.Count(line, "]") == 1
			if line != "" && line != "SAID" && line != "INSIDE" && !ours {
				t.Errorf("line %q of %q", line, ev.Text)
			}
		}
	})
}
