package telegram

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fileOf is a file with the facts, whose content is its name.
func fileOf(name string, f relay.FileFacts) relay.File {
	content := "content of " + name
	if f.Size == 0 {
		f.Size = int64(len(content))
	}
	return relay.File{Name: name, FileFacts: f, Content: strings.NewReader(content)}
}

// picture is a PNG.
var picture = fileOf("cat.png", relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Width: 640, Height: 480})

// TestMethodFor: every row of the table, and what lies just beyond its bounds.
func TestMethodFor(t *testing.T) {
	of := func(f relay.Format) relay.FileFacts { return relay.FileFacts{Format: f, Size: 1000} }
	sized := func(size int64, w, h int) relay.FileFacts {
		return relay.FileFacts{Format: relay.FormatJPEG, Size: size, Width: w, Height: h}
	}
	for name, tc := range map[string]struct {
		kind  string
		facts relay.FileFacts
		want  string
	}{
		"JPEG as image":       {"image", of(relay.FormatJPEG), sendPhoto},
		"PNG as image":        {"image", of(relay.FormatPNG), sendPhoto},
		"WebP as image":       {"image", of(relay.FormatWebP), sendPhoto},
		"10 MB":               {"image", sized(10<<20, 640, 480), sendPhoto},
		"over 10 MB":          {"image", sized(10<<20+1, 640, 480), sendDocument},
		"sides of 10,000":     {"image", sized(1000, 5000, 5000), sendPhoto},
		"sides over 10,000":   {"image", sized(1000, 5000, 5001), sendDocument},
		"ratio of 20":         {"image", sized(1000, 2000, 100), sendPhoto},
		"wider than 20":       {"image", sized(1000, 2001, 100), sendDocument},
		"higher than 20":      {"image", sized(1000, 100, 2001), sendDocument},
		"GIF as image":        {"image", of(relay.FormatGIF), sendAnimation},
		"GIF as video":        {"video", of(relay.FormatGIF), sendDocument},
		"MP4 as video":        {"video", of(relay.FormatMP4), sendVideo},
		"WebM as video":       {"video", of(relay.FormatWebM), sendDocument},
		"MP4 as image":        {"image", of(relay.FormatMP4), sendDocument},
		"Opus as voice":       {"voice", of(relay.FormatOpus), sendVoice},
		"Opus as audio":       {"audio", of(relay.FormatOpus), sendDocument},
		"Vorbis as voice":     {"voice", of(relay.FormatOgg), sendDocument},
		"MP3 as voice":        {"voice", of(relay.FormatMP3), sendAudio},
		"MP3 as audio":        {"audio", of(relay.FormatMP3), sendAudio},
		"M4A as voice":        {"voice", of(relay.FormatM4A), sendAudio},
		"M4A as audio":        {"audio", of(relay.FormatM4A), sendAudio},
		"PNG as document":     {"document", of(relay.FormatPNG), sendDocument},
		"anything as image":   {"image", of(relay.FormatOther), sendDocument},
		"a kind of next year": {"hologram", of(relay.FormatPNG), sendDocument},
	} {
		t.Run(name, func(t *testing.T) {
			if got := methodFor(tc.kind, tc.facts); got != tc.want {
				t.Errorf("methodFor(%q, %+v) = %s, want %s", tc.kind, tc.facts, got, tc.want)
			}
		})
	}
}

func TestSendMediaParameters(t *testing.T) {
	voice := fileOf("voice.ogg", relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg", Duration: 3200 * time.Millisecond})
	for name, tc := range map[string]struct {
		send   relay.SendMedia
		method string
		file   fakeFile
		want   url.Values
	}{
		"bare": {
			relay.SendMedia{Chat: dm, Kind: "image", File: picture}, sendPhoto,
			fakeFile{"photo", "cat.png", "image/png", "content of cat.png"}, url.Values{"chat_id": {"42"}},
		},
		"a voice": {
			relay.SendMedia{Chat: dm, Kind: "voice", File: voice}, sendVoice,
			fakeFile{"voice", "voice.ogg", "audio/ogg", "content of voice.ogg"}, url.Values{"chat_id": {"42"}, "duration": {"4"}},
		},
		"everything": {
			relay.SendMedia{
				Chat: group, Kind: "document", File: fileOf("a \"ü\".pdf", relay.FileFacts{Mime: "application/pdf"}), Caption: "**look**", ReplyTo: "7",
				Meta: relay.Metadata{ThreadID: "3", NonConversational: true},
			}, sendDocument,
			fakeFile{"document", "a 'ü'.pdf", "application/pdf", "content of a \"ü\".pdf"},
			url.Values{
				"chat_id": {"-1001"}, "message_thread_id": {"3"}, "disable_notification": {"true"}, "caption": {"look"},
				"caption_entities": {`[{"type":"bold","offset":0,"length":4}]`},
				"reply_parameters": {`{"message_id":7,"allow_sending_without_reply":true}`},
			},
		},
		"the General topic is not named, and notify is loud": {
			relay.SendMedia{Chat: group, Kind: "image", File: picture, Meta: relay.Metadata{ThreadID: "1", NonConversational: true, Notify: true}},
			sendPhoto, fakeFile{"photo", "cat.png", "image/png", "content of cat.png"}, url.Values{"chat_id": {"-1001"}},
		},
		"no name": {
			relay.SendMedia{Chat: dm, Kind: "image", File: fileOf("", relay.FileFacts{Ext: ".bin"})}, sendDocument,
			fakeFile{"document", "file.bin", "", "content of "}, url.Values{"chat_id": {"42"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				res, err := p.SendMedia(ctx, tc.send)
				if err != nil {
					t.Fatal(err)
				}
				if want := (relay.Result{MessageID: "501"}); !cmp.Equal(res, want) {
					t.Errorf("result = %+v, want %+v", res, want)
				}
				methods, files := f.uploads()
				if !slices.Equal(methods, []string{tc.method}) || !slices.Equal(files, []fakeFile{tc.file}) {
					t.Errorf("uploads = %q, %+v, want %s, %+v", methods, files, tc.method, tc.file)
				}
				if diff := cmp.Diff([]url.Values{tc.want}, f.callsTo(tc.method)); diff != "" {
					t.Errorf("parameters (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCaption: what does not fit follows as messages, and the result names the file first.
func TestCaption(t *testing.T) {
	for name, tc := range map[string]struct {
		caption string
		with    string
		behind  []string
	}{
		"1,024 units":                 {strings.Repeat("x", 1024), strings.Repeat("x", 1024), nil},
		"1,025 units":                 {strings.Repeat("x", 1025), "", []string{strings.Repeat("x", 1025)}},
		"1,024 units after parsing":   {"**" + strings.Repeat("x", 1024) + "**", strings.Repeat("x", 1024), nil},
		"pairs count twice":           {strings.Repeat("𝄞", 513), "", []string{strings.Repeat("𝄞", 513)}},
		"more than a message":         {strings.Repeat("x", 4096) + " y", "", []string{strings.Repeat("x", 4096), "y"}},
		"nothing to see":              {" \n ", "", nil},
		"more formats than one takes": {strings.Repeat("**a** ", 101), "", []string{strings.TrimSpace(strings.Repeat("a ", 100)), "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				meta := relay.Metadata{ThreadID: "3"}
				res, err := p.SendMedia(ctx, relay.SendMedia{Chat: group, Kind: "image", File: picture, Caption: tc.caption, ReplyTo: "7", Meta: meta})
				if err != nil {
					t.Fatal(err)
				}
				if got := paramsOf(f, sendPhoto, "caption"); !slices.Equal(got, []string{tc.with}) {
					t.Errorf("captions = %q, want %q", got, tc.with)
				}
				if got := paramsOf(f, "sendMessage", "text"); !slices.Equal(got, tc.behind) {
					t.Errorf("messages = %q, want %q", got, tc.behind)
				}
				want := relay.Result{MessageID: "501"}
				if len(tc.behind) > 0 {
					want.MessageIDs = ids(501, 502, 503)[:1+len(tc.behind)]
				}
				if diff := cmp.Diff(want, res); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				for _, m := range f.callsTo("sendMessage") {
					if m.Get("reply_parameters") != "" || m.Get("message_thread_id") != "3" {
						t.Errorf("a message behind the file has %v", m)
					}
				}
			})
		})
	}
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		_, err := p.SendMedia(ctx, relay.SendMedia{Chat: dm, Kind: "image", File: picture, Caption: strings.Repeat("x", 1<<17+1)})
		if ae := failure(t, err); ae.Outcome != relay.NotSent || len(f.carriedOut()) != 0 {
			t.Errorf("a caption without end = %+v, %d calls", ae, len(f.carriedOut()))
		}
	})
}

// TestSendMediaFallbacks: what is refused goes out another way, once more with all of its bytes.
func TestSendMediaFallbacks(t *testing.T) {
	bad := func(words string) fault { return fault{code: 400, description: "Bad Request: " + words} }
	voice := fileOf("voice.ogg", relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg"})
	for name, tc := range map[string]struct {
		kind    string
		file    relay.File
		faults  []fault
		methods []string
		check   func(t *testing.T, f *fakeAPI)
		public  string // of the error; empty: it succeeds
	}{
		"dimensions":     {kind: "image", file: picture, faults: []fault{bad("PHOTO_INVALID_DIMENSIONS")}, methods: []string{sendPhoto, sendDocument}},
		"not processed":  {kind: "image", file: picture, faults: []fault{bad("IMAGE_PROCESS_FAILED")}, methods: []string{sendPhoto, sendDocument}},
		"no photos here": {kind: "image", file: picture, faults: []fault{bad("not enough rights to send photos to the chat")}, methods: []string{sendPhoto, sendDocument}},
		"no such chat":   {kind: "image", file: picture, faults: []fault{bad("chat not found")}, methods: []string{sendPhoto}, public: "Bad Request: chat not found"},
		"blocked": {
			kind: "image", file: picture, faults: []fault{{code: 403, description: "Forbidden: bot was blocked by the user"}},
			methods: []string{sendPhoto}, public: "Forbidden: bot was blocked by the user",
		},
		"no voices wanted": {kind: "voice", file: voice, faults: []fault{bad("VOICE_MESSAGES_FORBIDDEN")}, methods: []string{sendVoice, sendAudio}},
		"the same, of a server that knew it before": {
			kind: "voice", file: voice, faults: []fault{bad("user restricted receiving of voice messages")}, methods: []string{sendVoice, sendAudio},
		},
		"another voice fault":   {kind: "voice", file: voice, faults: []fault{bad("x")}, methods: []string{sendVoice}, public: "Bad Request: x"},
		"too large":             {kind: "document", file: picture, faults: []fault{{code: 413, description: "Request Entity Too Large"}}, methods: []string{sendDocument}, public: "Request Entity Too Large"},
		"too large for a proxy": {kind: "document", file: picture, faults: []fault{{code: 413, html: true}}, methods: []string{sendDocument}, public: "Request Entity Too Large"},
		"topic gone": {
			kind: "image", file: picture, faults: []fault{bad("message thread not found")}, methods: []string{sendPhoto, sendPhoto},
			check: func(t *testing.T, f *fakeAPI) {
				if got := paramsOf(f, sendPhoto, "message_thread_id"); !slices.Equal(got, []string{"3", ""}) {
					t.Errorf("topics = %q", got)
				}
			},
		},
		"reply gone": {
			kind: "image", file: picture, faults: []fault{bad("message to be replied not found")}, methods: []string{sendPhoto, sendPhoto},
			check: func(t *testing.T, f *fakeAPI) {
				if got := paramsOf(f, sendPhoto, "reply_parameters"); got[1] != "" {
					t.Errorf("replies = %q", got)
				}
			},
		},
		"formats": {
			kind: "image", file: picture, faults: []fault{bad("can't parse entities")}, methods: []string{sendPhoto, sendPhoto},
			check: func(t *testing.T, f *fakeAPI) {
				if got := paramsOf(f, sendPhoto, "caption"); !slices.Equal(got, []string{"look", "**look**"}) {
					t.Errorf("captions = %q", got)
				}
			},
		},
		"caption too long for Telegram": {
			kind: "image", file: picture, faults: []fault{bad("message caption is too long")}, methods: []string{sendPhoto, sendPhoto},
			check: func(t *testing.T, f *fakeAPI) {
				if got := paramsOf(f, "sendMessage", "text"); !slices.Equal(got, []string{"look"}) {
					t.Errorf("messages = %q", got)
				}
			},
		},
		"moved": {
			kind: "image", file: picture, faults: []fault{{code: 400, description: "Bad Request: group chat was upgraded to a supergroup chat", migrateTo: -100777}},
			methods: []string{sendPhoto, sendPhoto},
			check: func(t *testing.T, f *fakeAPI) {
				if got := paramsOf(f, sendPhoto, "chat_id"); !slices.Equal(got, []string{"-1001", "-100777"}) {
					t.Errorf("chats = %q", got)
				}
				if got := paramsOf(f, sendPhoto, "reply_parameters"); got[1] != "" {
					t.Errorf("replies = %q", got)
				}
			},
		},
		"too many requests": {kind: "image", file: picture, faults: []fault{{code: 429, description: "Too Many Requests", retryAfter: 3}}, methods: []string{sendPhoto, sendPhoto}},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail(tc.methods[0], tc.faults...)
				res, err := p.SendMedia(ctx, relay.SendMedia{
					Chat: group, Kind: tc.kind, File: tc.file, Caption: "**look**", ReplyTo: "7", Meta: relay.Metadata{ThreadID: "3"},
				})
				if tc.public == "" && (err != nil || res.MessageID != "501") {
					t.Fatalf("result = %+v, %v", res, err)
				}
				if tc.public != "" {
					if ae := failure(t, err); ae.Public != tc.public || ae.Outcome != relay.NotSent {
						t.Errorf("error = %+v, want %q", ae, tc.public)
					}
				}
				methods, files := f.uploads()
				if !slices.Equal(methods, tc.methods) {
					t.Errorf("methods = %q, want %q", methods, tc.methods)
				}
				for i, got := range files {
					if got.content != "content of "+tc.file.Name || got.field != fileParam[methods[i]] {
						t.Errorf("upload %d = %+v", i, got)
					}
				}
				if tc.check != nil {
					tc.check(t, f)
				}
			})
		})
	}
}

// TestUnclearUploads: invariant 5. What Telegram may have taken is not sent again, also not as something else.
func TestUnclearUploads(t *testing.T) {
	for name, script := range map[string]fault{
		"answer lost":     {cut: true},
		"internal error":  {code: 500, description: "Internal Server Error"},
		"a proxy's page":  {code: 502, html: true},
		"no answer comes": {hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
				f.fail(sendPhoto, script)
				_, err := p.SendMedia(ctx, relay.SendMedia{Chat: dm, Kind: "image", File: picture})
				if ae := failure(t, err); ae.Outcome != relay.MaybeSent {
					t.Errorf("error = %+v", ae)
				}
				if methods, _ := f.uploads(); !slices.Equal(methods, []string{sendPhoto}) {
					t.Errorf("uploads = %q", methods)
				}
			})
		})
	}
}

// TestBrokenUpload: a connection that breaks before the last byte was taken sent nothing, so that it is tried again.
func TestBrokenUpload(t *testing.T) {
	const size = 24 << 20
	var tries atomic.Int64
	f := newFake()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			_, _ = io.CopyN(io.Discard, r.Body, size/8)
			panic(http.ErrAbortHandler)
		}
		f.ServeHTTP(w, r)
	}))
	defer s.Close()
	p := openAt(t, platforms.Options{APIBase: s.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	content := bytes.Repeat([]byte("x"), size)
	res, err := p.SendMedia(ctx, relay.SendMedia{Chat: dm, Kind: "document", File: relay.File{
		Name: "big.bin", FileFacts: relay.FileFacts{Size: size}, Content: bytes.NewReader(content),
	}})
	if err != nil || res.MessageID != "501" || tries.Load() != 2 {
		t.Fatalf("result = %+v, %v after %d tries", res, err, tries.Load())
	}
	if _, files := f.uploads(); len(files) != 1 || files[0].content != string(content) {
		t.Error("the file did not arrive whole, once")
	}
}

// TestCaptionBreaksOff: the file stands, so the gateway must not send it again.
func TestCaptionBreaksOff(t *testing.T) {
	onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
		f.fail("sendMessage", fault{code: 403, description: "Forbidden: bot was blocked by the user"})
		_, err := p.SendMedia(ctx, relay.SendMedia{Chat: dm, Kind: "image", File: picture, Caption: strings.Repeat("x", 2000)})
		ae := failure(t, err)
		if ae.Outcome != relay.MaybeSent || !slices.Equal(ae.MessageIDs, ids(501)) || !strings.HasPrefix(ae.Public, "timed out: only the first 1 of 2") {
			t.Errorf("error = %+v", ae)
		}
	})
}
