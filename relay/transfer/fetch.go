package transfer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/media"
)

const (
	// fetchTime is how long a file may take to arrive from elsewhere, with all redirects.
	fetchTime    = 10 * time.Second
	maxRedirects = 3
)

// Why a redirect is not followed.
var (
	errRedirects = errors.New("too many redirects")
	errDowngrade = errors.New("redirected from https to http")
)

// redirect returns an error if the next request of a chain may not be made. The transport checks its address.
func redirect(r *http.Request, via []*http.Request) error {
	r.Header.Del("Referer")                    // the former address may be a credential
	r.URL.Fragment, r.URL.RawFragment = "", "" // it is not sent to servers, and the guard refuses addresses with one
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errDowngrade
	}
	return nil
}

// fetched is the result of a fetch.
type fetched struct {
	size int64
	path string // in the address of the last redirect
}

// get fetches the file at an address into the sink that open returns for its size, or for the largest size if the
// server names none. Errors are *relay.ActionError, and do not contain the address.
func (f *Finder) get(ctx context.Context, address string, open func(size int64) (*sink, error)) (got fetched, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return got, refused("not an address", nil)
	}
	r.Header.Set("User-Agent", "hermes-connector")
	r.Header.Set("Accept-Encoding", "identity")
	res, err := f.client.Do(r)
	if err != nil {
		return got, notFetched(err)
	}
	defer res.Body.Close() // its remaining bytes are not wanted
	encoding := res.Header.Get("Content-Encoding")
	switch {
	case res.StatusCode != http.StatusOK:
		return got, refused("HTTP "+strconv.Itoa(res.StatusCode), nil)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return got, refused("it comes encoded", nil)
	case res.ContentLength > media.MaxFile:
		return got, refused(tooLarge, nil)
	}
	size := res.ContentLength
	if size < 0 {
		size = media.MaxFile
	}
	disk, err := open(size)
	switch {
	case errors.Is(err, media.ErrNoSpace):
		return got, refused("there is no space for it", err)
	case err != nil:
		return got, refused("it cannot be kept", err)
	}
	got = fetched{path: res.Request.URL.Path}
	got.size, err = io.Copy(disk, res.Body)
	switch {
	case disk.err != nil:
		return got, refused("it cannot be kept", disk.err)
	case err != nil:
		return got, notFetched(err)
	case got.size == 0:
		return got, refused("it is empty", nil)
	}
	return got, nil
}

// sink tells its place that bytes arrive, and remembers why it could not be written to.
type sink struct {
	w     io.Writer
	place *fair.Place
	err   error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.place.Moved(n)
	s.err = err
	return n, err
}

// notFetched returns why a request failed, in words without the address. err may contain the address and the server's
// text: neither is passed on.
func notFetched(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refused(tooLarge, nil)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return refused("its host is not known", nil)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return refused("the host's certificate is not valid", nil)
	}
	for _, known := range []error{errRedirects, errDowngrade} {
		if errors.Is(err, known) {
			return refused(known.Error(), nil)
		}
	}
	if errors.Is(err, guard.ErrBlocked) {
		return refused("its address is not open to gateways", blocked(err))
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refused("it did not come within "+fetchTime.String(), nil)
	}
	return refused("no answer", nil)
}

// blocked returns the guard's own error, from within the errors that package http wraps around it.
func blocked(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
