package routes

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Most callers send their whole body before they read an answer. If the connection is closed meanwhile, they lose the
// answer: they see a reset and never learn why. So the rest of a body that is too large is read and dropped for a
// while.
const (
	lingerTime  = 10 * time.Second
	lingerBytes = 32 << 20
)

// body is a request's body, bounded by its route.
type body struct {
	io.ReadCloser           // the bounded body
	sent          io.Reader // the same without the bound
	tooLarge      bool
}

func newBody(w http.ResponseWriter, r *http.Request, most int64) *body {
	return &body{http.MaxBytesReader(w, r.Body, most), r.Body, r.ContentLength > most}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		b.tooLarge = true
	}
	return n, err
}

// linger sends the answer to a body that is too large, and drops what its caller still sends.
func (b *body) linger(w http.ResponseWriter) {
	if b.tooLarge {
		Linger(w, b.sent)
	}
}

// Linger sends the answer to a request whose body is not wanted, and drops what its caller still sends.
func Linger(w http.ResponseWriter, sent io.Reader) {
	conn := http.NewResponseController(w)
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, sent, lingerBytes) // a caller that sends more, or more slowly, is cut off
}
