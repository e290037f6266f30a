package transfer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/relay/media"
)

// piece is how much of a file is sent at a time, in bytes: within readSilence something of it must have left.
const piece = 256 << 10

// download answers with a file.
func (t *Transfers) download(c *call) {
	id, ok := parseID(strings.TrimPrefix(c.URL.EscapedPath(), route+"/"))
	if !ok {
		c.refuse(http.StatusNotFound, notFound)
		return
	}
	leave, ok := t.begin(c)
	if !ok {
		return
	}
	defer leave()
	f, done, err := t.files.Open(c.Context(), c.peer.Instance, id)
	switch {
	case errors.Is(err, media.ErrNoFile):
		c.refuse(http.StatusNotFound, notFound)
		return
	case err != nil:
		t.failed(c, err)
		return
	}
	defer done()
	if err := c.send(f); err != nil {
		t.o.Log.Debug("file not read to its end", "gateway", c.peer.Gateway, "err", err)
		return // net/http closes a connection on which fewer bytes went than were announced
	}
	t.o.Count(count.MediaServed)
	t.files.Served(c.peer.Instance, id)
}

// send writes the answer with the file f. An error says that not all of it left.
func (c *call) send(f relay.File) error {
	h := c.w.Header()
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	h.Set("Content-Type", contentType(f.Mime))
	h.Set("Content-Disposition", filename.Disposition(f.Name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	src, ok := f.Content.(io.Reader) // a file of the disk: the kernel can send it
	if !ok {
		src = io.NewSectionReader(f.Content, 0, f.Size)
	}
	for left := f.Size; left > 0; {
		_ = c.conn.SetWriteDeadline(c.soon(readSilence)) // a connection without deadlines is a test's
		n, err := io.CopyN(c.w, src, min(left, piece))
		left -= n
		if errors.Is(err, os.ErrDeadlineExceeded) && n > 0 { // slow, but not silent
			continue
		}
		if err != nil {
			return fmt.Errorf("send a file: %w", err)
		}
	}
	if err := c.conn.Flush(); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	return nil
}

// contentType is the type that a file is announced with.
func contentType(mime string) string {
	if mime == "" {
		return "application/octet-stream"
	}
	return mime
}
