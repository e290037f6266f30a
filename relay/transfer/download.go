package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// A file is sent in pieces. Every lookEvery the code checks whether any of a piece has left. Over TLS, which a partial
// write breaks, a whole piece leaves within readSilence.
const (
	piece     = 256 << 10 // bytes
	tlsPiece  = 16 << 10  // bytes
	lookEvery = time.Second
)

// download answers with a file: it waits for the call's place, opens the file, and sends it.
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
	t.files.Served(c.peer.Instance)
}

// send writes the answer with the file f, piece by piece. It ends if nothing has left for readSilence, or the call's
// time is up. An error says that some of it did not leave.
func (c *call) send(f relay.File) error {
	h := c.w.Header()
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	h.Set("Content-Type", cmp.Or(f.Mime, "application/octet-stream"))
	h.Set("Content-Disposition", filename.Disposition(f.Name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = c.conn.SetWriteDeadline(c.soon(readSilence)) // a connection without deadlines is a test's
	c.w.WriteHeader(http.StatusOK)
	if err := c.conn.Flush(); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	src, ok := f.Content.(io.ReadSeeker) // a file of the disk: the kernel can send it
	if !ok {
		src = io.NewSectionReader(f.Content, 0, f.Size)
	}
	size, look := int64(piece), lookEvery
	clear := routes.Clear(c.Request)
	if !clear {
		size, look = tlsPiece, readSilence
	}
	moved := time.Now()
	for at := int64(0); at < f.Size; {
		if _, err := src.Seek(at, io.SeekStart); err != nil {
			return fmt.Errorf("send a file: %w", err)
		}
		_ = c.conn.SetWriteDeadline(c.soon(look))
		// This is checked after the deadline was set, which may have replaced the one with which begin ends the call.
		if err := c.Context().Err(); err != nil {
			return fmt.Errorf("send a file: %w", context.Cause(c.Context()))
		}
		n, err := io.CopyN(c.w, src, min(f.Size-at, size))
		at += n
		c.place.Moved(int(n))
		if n > 0 {
			moved = time.Now()
		}
		waits := errors.Is(err, os.ErrDeadlineExceeded) && time.Since(moved) < readSilence && time.Now().Before(c.end)
		if err != nil && (!waits || !clear || c.Context().Err() != nil) {
			return fmt.Errorf("send a file: %w", err)
		}
	}
	if err := c.conn.Flush(); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	return nil
}
