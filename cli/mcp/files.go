package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
)

// fetchTime is how long the download of a file may take.
const fetchTime = 30 * time.Second

// errGone ends the tries to fetch a file: another try would not help.
var errGone = errors.New("the connector has no such file")

// fetchAll fetches the files of an event, all at the same time. A file that could not be fetched gets no name.
func (s *Server) fetchAll(ctx context.Context, sp *spool.Spool, all []relay.Media) []spool.File {
	out := make([]spool.File, min(len(all), relay.MaxAttachments))
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			var err error
			if out[i], err = s.fetch(ctx, sp, all[i]); err != nil {
				s.o.Log.Warn("a file was not fetched", "err", err)
				out[i] = spool.File{Mime: all[i].Mime, Size: max(0, all[i].Size)}
			}
		})
	}
	wg.Wait()
	return out
}

// fetch fetches one file, and tries again while there is time.
func (s *Server) fetch(ctx context.Context, sp *spool.Spool, m relay.Media) (f spool.File, err error) {
	if !strings.HasPrefix(m.URL, s.o.Credential.Media()+"/") { // only our connector may see the bearer
		return f, errors.New("its address is none of the connector's")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	again := backoff.Backoff{First: time.Second, Max: 8 * time.Second}
	for {
		f.Name, err = sp.Keep(func(to *os.File) (ext string, err error) {
			if err := s.download(ctx, m.URL, to, &f); err != nil {
				return "", err
			}
			facts := sniff.Of(to, f.Size)
			f.Mime = facts.Mime
			return facts.Ext, nil
		})
		if err == nil || errors.Is(err, errGone) || !backoff.Pause(ctx, again.Next()) {
			return f, err
		}
	}
}

// download copies the file at the address into to, and sets the size and the checksum of f.
func (s *Server) download(ctx context.Context, address string, to io.Writer, f *spool.File) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", s.client.Bearer())
	res, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // nothing was written
	switch {
	case res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", errGone, res.Status)
	case res.StatusCode != http.StatusOK:
		return errors.New(res.Status)
	}
	sum := sha256.New()
	f.Size, err = io.Copy(io.MultiWriter(to, sum), io.LimitReader(res.Body, relay.MaxFile+1))
	if err == nil && f.Size > relay.MaxFile {
		err = fmt.Errorf("%w: it is too large", errGone)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return err
}
