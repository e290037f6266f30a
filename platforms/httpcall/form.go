package httpcall

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Form is a multipart/form-data body: fields, then one file, which is read while it is sent. The body's length is known
// before it is sent. The standard library's writer would need the whole body in memory, or a goroutine.
type Form struct {
	Fields []Field // in this order
	File   FormFile
}

// Field is one field of a form.
type Field struct {
	Name  string
	Type  string // of its content, like "application/json"; empty: not given
	Value string
}

// FormFile is the file of a form.
type FormFile struct {
	Field   string // the field's name
	Name    string // the file's name; characters that a header cannot carry are replaced
	Type    string // of its content; empty: not given
	Content io.ReaderAt
	Size    int64 // in bytes
}

// Request returns a POST of f. Each body that the transport gets from the request reads the file from its beginning, in
// pieces of at most 64 KiB. Once Client.Do has returned, nothing reads the file any more; Client.Do also knows whether
// the transport read the body's last byte.
func (f Form) Request(ctx context.Context, url string) (*http.Request, error) {
	var mark [16]byte
	_, _ = rand.Read(mark[:]) // never fails
	boundary := hex.EncodeToString(mark[:])
	head := new(strings.Builder)
	part := func(name, more, kind string) {
		head.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n")
		if kind != "" {
			head.WriteString("Content-Type: " + kind + "\r\n")
		}
		head.WriteString("\r\n")
	}
	for _, field := range f.Fields {
		part(field.Name, "", field.Type)
		head.WriteString(field.Value + "\r\n")
	}
	part(f.File.Field, `; filename="`+headerSafe.Replace(f.File.Name)+`"`, f.File.Type)
	file := func() io.Reader { return io.NewSectionReader(f.File.Content, 0, f.File.Size) }
	up := &upload{file: file, head: head.String(), tail: "\r\n--" + boundary + "--\r\n", size: f.File.Size}
	return up.request(ctx, url, "multipart/form-data; boundary="+boundary)
}

// Enclosed is a body with a file in base64 between two texts, such as the two halves of a JSON object. It is read and
// sent as a Form is.
type Enclosed struct {
	Head, Tail string
	Content    io.ReaderAt
	Size       int64 // of the file, in bytes
}

// Request returns a POST of e as JSON.
func (e Enclosed) Request(ctx context.Context, url string) (*http.Request, error) {
	file := func() io.Reader { return &encoded{from: io.NewSectionReader(e.Content, 0, e.Size)} }
	up := &upload{file: file, head: e.Head, tail: e.Tail, size: (e.Size + 2) / 3 * 4}
	return up.request(ctx, url, "application/json")
}

// encoded reads a file in base64.
type encoded struct {
	from io.Reader
	raw  [3 << 10]byte
	text []byte // encoded, and not yet returned by Read
}

func (e *encoded) Read(to []byte) (int, error) {
	if len(e.text) == 0 {
		n, err := io.ReadFull(e.from, e.raw[:])
		if n == 0 {
			return 0, err
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return 0, err
		}
		e.text = base64.StdEncoding.AppendEncode(e.text, e.raw[:n])
	}
	n := copy(to, e.text)
	e.text = e.text[n:]
	return n, nil
}

// request returns a POST of u.
func (u *upload) request(ctx context.Context, url, contentType string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.ContentLength = u.length()
	req.Body = u.body()
	// The transport asks for another body only while it has written nothing of the first.
	req.GetBody = func() (io.ReadCloser, error) { return u.body(), nil }
	return req, nil
}

// headerSafe replaces the characters in a file's name that servers read differently: some do not know escapes.
var headerSafe = strings.NewReplacer(`"`, "'", `\`, "_", "\r", "_", "\n", "_", "\x00", "_")

// upload is the state that all bodies of one request share.
type upload struct {
	// Set once.
	file       func() io.Reader // from its beginning
	head, tail string
	size       int64 // of what file reads, in bytes

	mu    sync.Mutex // guards the fields below; held while the file is read
	over  bool       // the file must not be read any more
	whole bool       // the transport has read the body's last byte
}

func (u *upload) length() int64 { return int64(len(u.head)) + u.size + int64(len(u.tail)) }

func (u *upload) body() *formBody {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.whole = false
	return &formBody{upload: u, left: u.length(), from: io.MultiReader(strings.NewReader(u.head), u.file(), strings.NewReader(u.tail))}
}

// end stops all reading, and reports whether the transport had read the body's last byte before.
func (u *upload) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	return u.whole
}

// formBody is one body of an upload.
type formBody struct {
	*upload
	from io.Reader
	left int64 // bytes that are not read yet
}

// formPiece is how many bytes one Read returns at most.
const formPiece = 64 << 10

// Errors of a body. A file's own errors are not used, because they may name its path.
var (
	errFormOver = errors.New("the form is sent no more")
	errFormFile = errors.New("the file cannot be read")
)

func (b *formBody) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.left == 0: // also after end: the transport reads once more behind the last byte
		return 0, io.EOF
	case b.over:
		return 0, errFormOver
	}
	n, err := b.from.Read(to[:min(len(to), formPiece)])
	b.left -= int64(n)
	b.whole = b.left == 0
	if err != nil && !b.whole { // io.EOF too: the file is shorter than its Size
		return n, errFormFile
	}
	return n, nil
}

func (b *formBody) Close() error { return nil }
