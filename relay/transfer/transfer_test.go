package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// jpeg begins as a picture does.
var jpeg = []byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00canary-bytes")

// TestWhoGetsAFile: the instance whose file it is, and nobody else learns that there is one.
func TestWhoGetsAFile(t *testing.T) { // invariants 1, 2
	r := newRig(t)
	id := string(r.put("home", "canary-name.jpg", jpeg))
	for name, tc := range map[string]struct {
		method, path, as string
		code             int
		want             string
	}{
		"its own":                     {"GET", "/relay/media/" + id, "home", 200, string(jpeg)},
		"another's":                   {"GET", "/relay/media/" + id, "away", 404, notFound},
		"unknown":                     {"GET", "/relay/media/" + strings.Repeat("0", 32), "home", 404, notFound},
		"too short":                   {"GET", "/relay/media/" + id[1:], "home", 404, notFound},
		"too long":                    {"GET", "/relay/media/" + id + "0", "home", 404, notFound},
		"capitals":                    {"GET", "/relay/media/" + strings.Repeat("A", 32), "home", 404, notFound},
		"up":                          {"GET", "/relay/media/..", "home", 404, notFound},
		"up, encoded":                 {"GET", "/relay/media/%2e%2e%2f" + id[:25], "home", 404, notFound},
		"encoded":                     {"GET", "/relay/media/%" + "61" + id[1:], "home", 404, notFound},
		"with a suffix":               {"GET", "/relay/media/" + id + ".jpg", "home", 404, notFound},
		"one part more":               {"GET", "/relay/media/" + id + "/", "home", 404, notFound},
		"below":                       {"GET", "/relay/media/" + id + "/x", "home", 404, notFound},
		"no id":                       {"GET", "/relay/media/", "home", 404, notFound},
		"a query changes nothing":     {"GET", "/relay/media/" + id + "?x=1", "home", 200, string(jpeg)},
		"a stranger":                  {"GET", "/relay/media/" + id, "", 401, "unauthorized"},
		"a stranger, no such id":      {"GET", "/relay/media/x", "", 401, "unauthorized"},
		"a wrong bearer":              {"GET", "/relay/media/" + id, "wrong", 401, "unauthorized"},
		"an old bearer":               {"GET", "/relay/media/" + id, "old", 401, "unauthorized"},
		"the database is gone":        {"GET", "/relay/media/" + id, "broken", 503, "unavailable"},
		"another method":              {"DELETE", "/relay/media/" + id, "home", 405, "method not allowed"},
		"a download of the upload":    {"GET", "/relay/media", "home", 405, "method not allowed"},
		"an upload to a file":         {"POST", "/relay/media/" + id, "home", 405, "method not allowed"},
		"only its head is not served": {"HEAD", "/relay/media/" + id, "home", 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := r.ask(tc.method, tc.path, tc.as, nil)
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%d %s, want %d %q", w.Code, w.Body, tc.code, tc.want)
			}
			if w.Header().Get("Location") != "" || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", w.Header())
			}
			if w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("401 with %v", w.Header())
			}
		})
	}
	if len(r.served) != 2 || r.counted["media_served"] != 2 {
		t.Errorf("told of %d served, counted %v, want 2", len(r.served), r.counted)
	}
	for _, g := range r.used {
		if g != "home" && g != "away" {
			t.Errorf("%q used the route", g)
		}
	}
	r.quiet(t, id, "canary")
}

// TestTheHeadOfAFile: what gateways read of it, and the plain name last.
func TestTheHeadOfAFile(t *testing.T) {
	r := newRig(t)
	id := r.put("home", "Grüße an alle; filename=x.exe.jpg", jpeg)
	w := r.ask("GET", "/relay/media/"+string(id), "home", nil, func(q *http.Request) {
		q.Header.Set("Range", "bytes=1-2")
		q.Header.Set("If-None-Match", "*")
	})
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), jpeg) {
		t.Fatalf("%d %q", w.Code, w.Body)
	}
	h := w.Header()
	for key, want := range map[string]string{
		"Content-Length": "23", "Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		if h.Get(key) != want {
			t.Errorf("%s: %q, want %q", key, h.Get(key), want)
		}
	}
	d := h.Get("Content-Disposition")
	_, plain, ok := strings.Cut(d, "filename=")
	if !ok || !strings.HasPrefix(d, "attachment; filename*=UTF-8''Gr%C3%BC") || !strings.HasSuffix(plain, `.jpg"`) || strings.ContainsAny(plain, ";=") {
		t.Errorf("Content-Disposition: %s", d)
	}
}

// TestWhatIsTaken: an upload's answers.
func TestWhatIsTaken(t *testing.T) { // invariant 1
	for name, tc := range map[string]struct {
		as     string
		body   io.Reader
		change func(*http.Request)
		full   error
		code   int
		want   string
	}{
		"a file":                        {"home", bytes.NewReader(jpeg), nil, nil, 200, `"size":23}`},
		"of unknown length":             {"home", struct{ io.Reader }{bytes.NewReader(jpeg)}, nil, nil, 200, `"size":23}`},
		"empty":                         {"home", nil, nil, nil, 400, empty},
		"empty, of unknown length":      {"home", struct{ io.Reader }{strings.NewReader("")}, nil, nil, 400, empty},
		"the largest":                   {"home", bytes.NewReader(make([]byte, media.MaxFile)), nil, nil, 200, `"size":26214400}`},
		"one byte more":                 {"home", unread{t}, declared(media.MaxFile + 1), nil, 413, tooLarge},
		"one byte more, not declared":   {"home", struct{ io.Reader }{bytes.NewReader(make([]byte, media.MaxFile+1))}, nil, nil, 413, tooLarge},
		"more than a number holds":      {"home", unread{t}, declared(1<<62 + 1), nil, 413, tooLarge},
		"a stranger's":                  {"", unread{t}, declared(media.MaxFile), nil, 401, "unauthorized"},
		"a wrong bearer":                {"wrong", unread{t}, declared(media.MaxFile), nil, 401, "unauthorized"},
		"a browser's":                   {"home", unread{t}, func(q *http.Request) { q.Header.Set("Origin", "https://x.example") }, nil, 403, "browsers"},
		"cut off":                       {"home", io.MultiReader(bytes.NewReader(jpeg), brokenBody{}), nil, nil, 400, "did not arrive"},
		"no room":                       {"home", bytes.NewReader(jpeg), nil, media.ErrNoSpace, 507, "no space"},
		"larger than the store takes":   {"home", bytes.NewReader(jpeg), nil, media.ErrTooLarge, 413, tooLarge},
		"the disk is broken":            {"home", bytes.NewReader(jpeg), nil, errors.New("write canary-path: input/output error"), 503, "unavailable"},
		"a name that no header carries": {"home", bytes.NewReader(jpeg), func(q *http.Request) { q.Header.Set("X-Media-Filename", "\xff/\x01..") }, nil, 200, "id"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.full = tc.full
			w := r.ask("POST", "/relay/media", tc.as, tc.body, func(q *http.Request) {
				if tc.change != nil {
					tc.change(q)
				}
			})
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
				t.Fatalf("%d %s, want %d %q", w.Code, w.Body, tc.code, tc.want)
			}
			if took := tc.code == 200; took != (len(r.files) == 1) {
				t.Errorf("%d files kept", len(r.files))
			}
			if strings.Contains(w.Body.String(), "canary") {
				t.Errorf("answer %s", w.Body)
			}
		})
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// brokenBody is a connection that ends.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func declared(size int64) func(*http.Request) {
	return func(q *http.Request) { q.ContentLength = size }
}

// TestAnUploadIsAFileOfItsOwn: with the name that it was given, for its instance only.
func TestAnUploadIsAFileOfItsOwn(t *testing.T) {
	for raw, want := range map[string]string{
		"report.pdf":                          "report.pdf",
		"Gr\xfc\xdfe.txt":                     "Grüße.txt", // as Python writes it
		"Grüße.txt":                           "Grüße.txt",
		"../../etc/passwd":                    "passwd",
		`C:\Users\ann\photo.jpg`:              "photo.jpg",
		"..":                                  "",
		"":                                    "",
		strings.Repeat("x", 300) + ".jpg":     strings.Repeat("x", 251) + ".jpg",
		"a\tb.txt":                            "a b.txt",
		"\xe2\x80\xaefdp.exe":                 "fdp.exe",
		strings.Repeat("ü", 300):              strings.Repeat("ü", 255),
		"name with blanks and (brackets).jpg": "name with blanks and (brackets).jpg",
	} {
		r := newRig(t)
		var ids [2]relay.MediaID
		for n := range ids {
			w := r.ask("POST", "/relay/media", "home", bytes.NewReader(jpeg), func(q *http.Request) { q.Header["X-Media-Filename"] = []string{raw} })
			var a uploaded
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 || a.Size != 23 {
				t.Fatalf("%q: %d %s", raw, w.Code, w.Body)
			}
			if k := r.files[a.ID]; k.of != "home" || k.name != want || !bytes.Equal(r.content(a.ID), jpeg) {
				t.Errorf("%q is kept as %+v, want %q", raw, k, want)
			}
			ids[n] = a.ID
		}
		if ids[0] == ids[1] {
			t.Error("two uploads are one file")
		}
	}
}

// TestUploadsHaveARate, of each gateway, and downloads have none.
func TestUploadsHaveARate(t *testing.T) {
	clock := noon
	r := newRig(t, func(o *Options) { o.Now = func() time.Time { return clock } })
	up := func(as string) int {
		return r.ask("POST", "/relay/media", as, bytes.NewReader(jpeg)).Code
	}
	for n := range uploadBurst {
		if code := up("home"); code != 200 {
			t.Fatalf("upload %d: %d", n, code)
		}
	}
	w := r.ask("POST", "/relay/media", "home", unread{t}, declared(media.MaxFile))
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" || up("away") != 200 {
		t.Errorf("the 61st: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	for id := range r.files {
		for range 2 {
			if w := r.ask("GET", "/relay/media/"+string(id), string(r.files[id].of), nil); w.Code != 200 {
				t.Fatalf("a download: %d", w.Code)
			}
		}
	}
	clock = clock.Add(time.Second)
	if code := up("home"); code != 200 {
		t.Errorf("a second later: %d", code)
	}
}

// TestGuessingIsCounted with the failures of the other doors; who has a credential is not refused for it.
func TestGuessingIsCounted(t *testing.T) {
	failures := new(limits.Failures)
	r := newRig(t, func(o *Options) { o.Failures = failures; o.Now = func() time.Time { return noon } })
	var code int
	for range 1000 {
		if code = r.ask("POST", "/relay/media", "wrong", unread{t}, declared(1)).Code; code == 429 {
			break
		}
	}
	if code != 429 || r.ask("GET", "/relay/media/x", "wrong", nil).Code != 429 {
		t.Errorf("the last guess: %d, want 429", code)
	}
	if code := r.ask("POST", "/relay/media", "home", bytes.NewReader(jpeg)).Code; code != 200 {
		t.Errorf("a credential from the same address: %d", code)
	}
}

// FuzzPath: whatever the path is, what is served is the instance's one file, and only by its own path.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"", "/", "/..", "/%2e%2e/x", "//x", "/00000000000000000000000000000000", "?x", "/x#y", "/\x00", "/%zz", "/..;/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		r := newRig(t)
		id := r.put("home", "x.jpg", jpeg)
		q, err := http.NewRequest(http.MethodGet, "http://h.example"+route+strings.ReplaceAll(tail, "{id}", string(id)), nil)
		if err != nil {
			return
		}
		w := r.ask("GET", "/", "home", nil, func(o *http.Request) { o.URL = q.URL })
		if own := q.URL.EscapedPath() == route+"/"+string(id); own != (w.Code == 200) {
			t.Errorf("%q: %d", q.URL.EscapedPath(), w.Code)
		}
		if w.Code != 200 && (!json.Valid(w.Body.Bytes()) || w.Code/100 != 4) {
			t.Errorf("%q: %d %s", tail, w.Code, w.Body)
		}
	})
}
