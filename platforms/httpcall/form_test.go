package httpcall

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// content is a file that counts its reads, and fails from some byte on.
type content struct {
	io.ReaderAt
	reads atomic.Int64
	fails int64 // from this byte on; 0: never
}

func (c *content) ReadAt(p []byte, at int64) (int, error) {
	c.reads.Add(1)
	if c.fails > 0 && at+int64(len(p)) > c.fails {
		return 0, errors.New("read /data/media/0123: input/output error")
	}
	return c.ReaderAt.ReadAt(p, at)
}

func formOf(size int) (Form, *content, []byte) {
	raw := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	c := &content{ReaderAt: bytes.NewReader(raw)}
	return Form{
		Fields: []Field{{Name: "chat_id", Value: "42"}, {Name: "payload_json", Type: "application/json", Value: `{"a":"ü"}`}},
		File:   FormFile{Field: "files[0]", Name: "a\"b\\c\r\nd ü.txt", Type: "text/plain", Content: c, Size: int64(len(raw))},
	}, c, raw
}

// post sends f to address.
func post(t *testing.T, ctx context.Context, c *Client, f Form, address string) (Answer, *Fault) {
	t.Helper()
	req, err := f.Request(ctx, address+"/bot"+colons+"/send")
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(req, "send")
}

// TestForm: a reader that is not ours finds fields and file, and the length was told before.
func TestForm(t *testing.T) {
	type part struct{ Name, File, Type, Content string }
	var got []part
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		if len(r.TransferEncoding) > 0 || r.ContentLength <= 0 {
			t.Errorf("length = %d, encoding %q", r.ContentLength, r.TransferEncoding)
		}
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil {
			t.Error(err)
		}
		for mr := multipart.NewReader(r.Body, params["boundary"]); ; {
			p, err := mr.NextPart()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			raw, err := io.ReadAll(p)
			if err != nil {
				t.Error(err)
			}
			got = append(got, part{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(raw)})
		}
	}))
	defer server.Close()
	c := client(t, colons, nil)
	for _, size := range []int{0, 16, 1 << 20} {
		f, _, raw := formOf(size)
		if a, fault := post(t, t.Context(), c, f, server.URL); fault != nil || a.Status != http.StatusOK || a.Sent != Maybe {
			t.Fatalf("%d bytes: %+v, %v", size, a, fault)
		}
		want := []part{
			{"chat_id", "", "", "42"}, {"payload_json", "", "application/json", `{"a":"ü"}`},
			{"files[0]", "a'b_c__d ü.txt", "text/plain", string(raw)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d bytes (-want +got):\n%s", size, diff)
		}
	}
}

// TestEnclosed: a file of any length stands in base64 between two texts, and the length was told before; cut in the middle,
// nobody has it.
func TestEnclosed(t *testing.T) {
	var got []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = nil
		if len(r.TransferEncoding) > 0 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("encoding %q, %v", r.TransferEncoding, r.Header)
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil && r.Header.Get("Broken") == "" {
			t.Error(err)
		}
		got = raw
	}))
	defer server.Close()
	c := client(t, colons, nil)
	for _, size := range []int{0, 1, 2, 3, 3 << 10, 3<<10 + 1, 1<<20 + 2} {
		raw := bytes.Repeat([]byte("0123456789abcdef\xff"), size/17+1)[:size]
		req, err := Enclosed{Head: "{\"a\":\"", Content: bytes.NewReader(raw), Size: int64(size), Tail: "\"}"}.Request(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if a, fault := c.Do(req, "send"); fault != nil || a.Sent != Maybe {
			t.Fatalf("%d bytes: %+v, %v", size, a, fault)
		}
		if want := `{"a":"` + base64.StdEncoding.EncodeToString(raw) + `"}`; string(got) != want {
			t.Errorf("%d bytes arrive as %d, want %d", size, len(got), len(want))
		}
	}
	file := &content{ReaderAt: bytes.NewReader(make([]byte, 1<<20)), fails: 1 << 19}
	req, err := Enclosed{Content: file, Size: 1 << 20}.Request(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Broken", "yes")
	if _, fault := c.Do(req, "send"); fault == nil || fault.Sent != Never {
		t.Errorf("a file that cannot be read: %+v", fault)
	}
}

// TestTheLastByteDecides: invariant 1. After Do nothing reads the file, and no error names its path.
func TestTheLastByteDecides(t *testing.T) {
	const size = 24 << 20 // more than sockets hold
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		fails  int64
		sent   Sent
		status int
	}{
		"breaks in the middle": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, size/4)
			panic(http.ErrAbortHandler)
		}, 0, Never, 0},
		"breaks behind the end": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}, 0, Maybe, 0},
		"the file fails": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}, size / 2, Never, 0},
		"an answer behind the end": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadGateway)
		}, 0, Maybe, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.serve)
			defer server.Close()
			f, file, _ := formOf(size)
			file.fails = tc.fails
			a, fault := post(t, t.Context(), client(t, colons, nil), f, server.URL)
			reads := file.reads.Load()
			sent := a.Sent
			if tc.status == 0 {
				if fault == nil {
					t.Fatalf("no fault; answer %+v", a)
				}
				if sent = fault.Sent; strings.Contains(fault.Error(), "/data") || strings.Contains(fault.Error(), "CANARY") {
					t.Errorf("a path or token stands in %v", fault)
				}
			}
			if sent != tc.sent || a.Status != tc.status {
				t.Errorf("sent = %v, status %d, want %v, %d (%v)", sent, a.Status, tc.sent, tc.status, fault)
			}
			server.Close()
			if late := file.reads.Load() - reads; late != 0 {
				t.Errorf("%d reads after Do had returned", late)
			}
		})
	}
}

// TestAnAnswerBeforeTheLastByte: what was answered early was not carried out, and the rest does not follow.
func TestAnAnswerBeforeTheLastByte(t *testing.T) {
	f, file, _ := formOf(1 << 20)
	a, fault := post(t, t.Context(), client(t, colons, early{}), f, "http://example.invalid")
	if fault != nil || a.Sent != Never || a.Status != http.StatusServiceUnavailable {
		t.Fatalf("%+v, %v", a, fault)
	}
	if file.reads.Load() == 0 {
		t.Error("the file was not read at all")
	}
}

// early answers after 200 KB, and wants the rest when nobody waits for it any more.
type early struct{}

func (early) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.CopyN(io.Discard, r.Body, 200_000); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: &rest{of: r.Body}}, nil
}

type rest struct{ of io.ReadCloser }

func (r *rest) Read([]byte) (int, error) {
	if n, err := io.Copy(io.Discard, r.of); n > 0 || err == nil {
		return 0, errors.New("the form was sent on")
	}
	return 0, io.EOF
}

func (r *rest) Close() error { return nil }
