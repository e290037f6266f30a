package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fetch reads an attachment whole. It fails the test if the token or a path is in the error.
func fetch(t *testing.T, p *Bot, a relay.Attachment) (string, error) {
	t.Helper()
	body, err := p.FetchMedia(t.Context(), a)
	var raw []byte
	if err == nil {
		raw, err = io.ReadAll(body)
		_ = body.Close()
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, "CANARY") || strings.Contains(text, "secret-path") {
			t.Errorf("a credential or path stands in %s", text)
		}
	}
	return string(raw), err
}

// mediaState is what the error says of the file; empty: it is worth trying again.
func mediaState(err error) relay.MediaState {
	var me *platforms.MediaError
	if errors.As(err, &me) {
		return me.State
	}
	return ""
}

func says(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// status answers with a page that repeats where it was asked for.
func statusCode(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, r.URL.String())
	}
}

func TestFetchMedia(t *testing.T) {
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer elsewhere.Close()
	f := newFake()
	f.hold("photos/file_1.jpg", says("a picture"))
	f.hold("documents/a ü%20#?.txt", says("odd names"))
	f.hold("secret-path/404", statusCode(http.StatusNotFound))
	f.hold("secret-path/500", statusCode(http.StatusInternalServerError))
	f.hold("secret-path/302", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
	})
	f.hold("secret-path/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	f.hold("secret-path/lost", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	f.hold("secret-path/declared", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "26214401") })
	f.hold("secret-path/endless", func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	f.hold("secret-path/whole", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 25<<20)) })
	f.hold("../secret-path", says("not this one"))
	p := openFake(t, f)

	for name, tc := range map[string]struct {
		ref   string
		want  string
		fails bool
		state relay.MediaState // of the failure; empty: worth another try
	}{
		"a picture":             {ref: "photos/file_1.jpg", want: "a picture"},
		"odd names":             {ref: "documents/a ü%20#?.txt", want: "odd names"},
		"25 MiB":                {ref: "secret-path/whole", want: string(make([]byte, 25<<20))},
		"Telegram knows it not": {ref: "nothing", fails: true, state: relay.MediaGone},
		"file gone":             {ref: "secret-path/404", fails: true, state: relay.MediaGone},
		"server's fault":        {ref: "secret-path/500", fails: true},
		"redirect":              {ref: "secret-path/302", fails: true},
		"breaks off":            {ref: "secret-path/broken", fails: true},
		"no answer":             {ref: "secret-path/lost", fails: true},
		"declared too large":    {ref: "secret-path/declared", fails: true, state: relay.MediaTooLarge},
		"without an end":        {ref: "secret-path/endless", fails: true, state: relay.MediaTooLarge},
		"a path upwards":        {ref: "../secret-path", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, p, relay.Attachment{Ref: tc.ref})
			if tc.fails != (err != nil) || mediaState(err) != tc.state || !tc.fails && got != tc.want {
				t.Errorf("fetch = %d bytes, %v; state %q, want %q", len(got), err, mediaState(err), tc.state)
			}
		})
	}
	if strayed.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestGetFileRefused: what Telegram says before there is an address.
func TestGetFileRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		says  any
		state relay.MediaState
		why   string
	}{
		"too big":       {fault{code: 400, description: "Bad Request: file is too big"}, relay.MediaTooLarge, "larger than the 20 MB Telegram gives bots"},
		"gone":          {fault{code: 400, description: "Bad Request: invalid file_id"}, relay.MediaGone, "Telegram has it no more"},
		"not now":       {fault{code: 400, description: "Bad Request: wrong file_id or the file is temporarily unavailable"}, "", ""},
		"limited":       {fault{code: 429, description: "Too Many Requests", retryAfter: 3}, "", ""},
		"its fault":     {fault{code: 500, description: "Internal Server Error"}, "", ""},
		"a page":        {fault{code: 502, html: true}, "", ""},
		"no path":       {obj{"file_id": "x"}, relay.MediaGone, "Telegram does not give it"},
		"large in fact": {obj{"file_id": "x", "file_size": 25<<20 + 1, "file_path": "a/b"}, relay.MediaTooLarge, platforms.WhyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.answer("getFile", func(url.Values) any { return tc.says })
			_, err := fetch(t, openFake(t, f), relay.Attachment{Ref: "x"})
			var me *platforms.MediaError
			if err == nil || mediaState(err) != tc.state || errors.As(err, &me) && me.Why != tc.why {
				t.Errorf("fetch = %v, state %q", err, mediaState(err))
			}
		})
	}
}

// TestTooLargeIsNotTried: what Telegram said of a file with the message suffices.
func TestTooLargeIsNotTried(t *testing.T) {
	for name, tc := range map[string]struct {
		base  string
		size  int64
		tried bool
		why   string
	}{
		"public, 20 MB":        {"", 20 << 20, true, ""},
		"public, over":         {"", 20<<20 + 1, false, "larger than the 20 MB Telegram gives bots"},
		"public, by its name":  {"https://api.telegram.org", 20<<20 + 1, false, "larger than the 20 MB Telegram gives bots"},
		"another server, 25":   {"http://127.0.0.1:1", 25 << 20, true, ""},
		"another server, over": {"http://127.0.0.1:1", 25<<20 + 1, false, platforms.WhyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.hold("a/b", says("content"))
			p := openAt(t, platforms.Options{Transport: f, APIBase: tc.base})
			got, err := fetch(t, p, relay.Attachment{Ref: "a/b", Size: tc.size})
			var me *platforms.MediaError
			switch {
			case tc.tried && (err != nil || got != "content"):
				t.Errorf("fetch = %q, %v", got, err)
			case !tc.tried && (!errors.As(err, &me) || me.State != relay.MediaTooLarge || me.Why != tc.why || len(f.callsTo("getFile")) > 0):
				t.Errorf("fetch = %v, %d questions", err, len(f.callsTo("getFile")))
			}
		})
	}
}

// TestLocalServer: only regular files below files_dir are read, whatever the server says.
func TestLocalServer(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "files")
	inner := filepath.Join(dir, testToken, "photos")
	for _, err := range []error{
		os.MkdirAll(inner, 0o700),
		os.WriteFile(filepath.Join(inner, "file_1.jpg"), []byte("a picture"), 0o600),
		os.WriteFile(filepath.Join(root, "secret-path"), []byte("a private key"), 0o600),
		os.Symlink(filepath.Join(root, "secret-path"), filepath.Join(dir, "link")),
		os.Symlink(root, filepath.Join(dir, "up")),
		os.Truncate(filepath.Join(inner, "file_1.jpg"), 9),
		os.WriteFile(filepath.Join(inner, "large"), nil, 0o600),
		os.Truncate(filepath.Join(inner, "large"), 25<<20+1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		dir, path string
		want      string
		state     relay.MediaState
	}{
		"below":              {dir, filepath.Join(inner, "file_1.jpg"), "a picture", ""},
		"not set":            {"", filepath.Join(inner, "file_1.jpg"), "", relay.MediaGone},
		"outside":            {dir, filepath.Join(root, "secret-path"), "", relay.MediaGone},
		"upwards":            {dir, dir + "/../secret-path", "", relay.MediaGone},
		"a name that begins": {dir, dir + "-private/x", "", relay.MediaGone},
		"a link out":         {dir, filepath.Join(dir, "link"), "", ""},
		"a folder's link":    {dir, filepath.Join(dir, "up", "secret-path"), "", ""},
		"nothing there":      {dir, filepath.Join(inner, "secret-path"), "", relay.MediaGone},
		"a folder":           {dir, inner, "", relay.MediaGone},
		"too large":          {dir, filepath.Join(inner, "large"), "", relay.MediaTooLarge},
		"no such folder":     {filepath.Join(root, "secret-path-none"), filepath.Join(root, "secret-path-none", "x"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.answer("getFile", func(url.Values) any { return obj{"file_id": "x", "file_path": tc.path} })
			values := map[string]string{keyFilesDir: tc.dir}
			got, err := fetch(t, openAt(t, platforms.Options{Transport: f, APIBase: "http://127.0.0.1:1", Values: values}), relay.Attachment{Ref: "x"})
			if got != tc.want || (err == nil) != (tc.want != "") || mediaState(err) != tc.state {
				t.Errorf("fetch = %q, %v", got, err)
			}
		})
	}
}

// TestFetchTakesTooLong: a server that says nothing holds nobody for ever.
func TestFetchTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.hold("a/b", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		begin := time.Now()
		_, err := fetch(t, openAt(t, platforms.Options{Transport: f}), relay.Attachment{Ref: "a/b"})
		if took := time.Since(begin); took != transferTimeout || mediaState(err) != "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fetch = %v after %v", err, took)
		}
	})
}

// TestFetchEnds: the caller's context ends the reading.
func TestFetchEnds(t *testing.T) {
	f := newFake()
	f.hold("a/b", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begins")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	body, err := openFake(t, f).FetchMedia(ctx, relay.Attachment{Ref: "a/b"})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("reading = %v", err)
	}
}
