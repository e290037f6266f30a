package transfer

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/filename"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// upload keeps the body as a file of the gateway's: it checks the rate and the size, waits for the call's place, and
// stores what arrives.
func (t *Transfers) upload(c *call) {
	if wait := t.uploads.Take(string(c.peer.Gateway), t.o.Now()); wait > 0 {
		routes.TooMany(c.w, wait, "too many uploads")
		return
	}
	switch {
	case c.ContentLength > media.MaxFile:
		c.refuse(http.StatusRequestEntityTooLarge, tooLarge)
		return
	case c.ContentLength == 0:
		c.refuse(http.StatusBadRequest, empty)
		return
	}
	leave, ok := t.begin(c)
	if !ok {
		return
	}
	defer leave()
	body := &body{c: c}
	id, size, err := t.files.Put(c.Context(), c.peer.Instance, filename.FromHeader(c.Header.Get("X-Media-Filename")), c.ContentLength, body)
	_, tooMany := errors.AsType[*http.MaxBytesError](body.err)
	switch {
	case err == nil:
		c.answer(http.StatusOK, uploaded{id, size})
	case isAskedBack(c.Context()):
		<-c.cut            // after that begin changes no deadline, so that the answer has its own time
		_ = c.Body.Close() // or the answer would wait for the rest
		t.busy(c, askedBack)
	case tooMany || errors.Is(err, media.ErrTooLarge):
		c.refuse(http.StatusRequestEntityTooLarge, tooLarge)
	case errors.Is(err, media.ErrEmpty):
		c.refuse(http.StatusBadRequest, empty)
	case errors.Is(err, media.ErrNoSpace):
		c.refuse(http.StatusInsufficientStorage, "no space for the file")
	case body.err != nil:
		_ = c.Body.Close() // or the answer would wait for the rest
		c.refuse(http.StatusBadRequest, "the body did not arrive")
	default:
		t.failed(c, err)
	}
}

// The texts for a gateway whose file is not accepted.
const (
	tooLarge = "larger than 25 MiB"
	empty    = "the body is empty"
	// askedBack is also the text for a file that the gateway wants to have fetched.
	askedBack = "others waited while it came"
)

// uploaded is the answer to an upload.
type uploaded struct {
	ID   relay.MediaID `json:"id"`
	Size int64         `json:"size"`
}

// body is an upload's body. Each read must bring something in time.
type body struct {
	c   *call
	err error // why it ended; nil: at its end, or not yet
}

func (b *body) Read(p []byte) (int, error) {
	_ = b.c.conn.SetReadDeadline(b.c.soon(sendSilence)) // a connection without deadlines is a test's
	if b.err = b.c.Context().Err(); b.err != nil {
		// Again, since the new deadline may have replaced that of begin: nobody waits for the rest.
		_ = b.c.conn.SetReadDeadline(time.Now())
		return 0, b.err
	}
	n, err := b.c.Body.Read(p)
	b.c.place.Moved(n)
	switch {
	case err == io.EOF: // the remaining work is no reason to end the request
		b.c.place.Settle()
		_ = b.c.conn.SetReadDeadline(b.c.end.Add(time.Minute))
	case err != nil: // the deadline stays: nobody waits for the rest
		b.err = err
	}
	return n, err
}
