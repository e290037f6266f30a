package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// fileSize is how large a file of the transfers is, in bytes: uploads stay for an hour, and those of all rounds must fit
// what is kept by default.
const fileSize = 16 << 20

// rate is how fast a gateway's network is, in bytes per pace: 3 MiB a second.
const rate = 32 << 10

// slowly is what comes over such a network: of r, or without one fileSize of zeros.
type slowly struct {
	ctx  context.Context //nolint:containedctx // a request's
	r    io.Reader
	left int
}

func (s *slowly) Read(p []byte) (int, error) {
	select {
	case <-time.After(pace):
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	p = p[:min(len(p), rate)]
	if s.r != nil {
		return io.ReadFull(s.r, p)
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left)
	s.left -= n
	return n, nil
}

// transfer makes one request with the bearer of a gateway. The answer is empty if it was not 200.
func (c *contender) transfer(ctx context.Context, gateway int, method, path string, body io.Reader) (answer []byte) {
	q := must(http.NewRequestWithContext(ctx, method, "http"+strings.TrimSuffix(strings.TrimPrefix(c.door, "ws"), "/relay")+path, body))
	q.Header.Set("Authorization", "Bearer "+c.bearer(gateway))
	q.Close = true
	if method == http.MethodPost {
		q.ContentLength = fileSize
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil { // it is ended, or the program has no such thing
		return nil
	}
	defer res.Body.Close()
	if method == http.MethodGet {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, &slowly{ctx: ctx, r: res.Body}, make([]byte, rate)) // it may be ended
	} else {
		answer, _ = io.ReadAll(res.Body)
	}
	if res.StatusCode != http.StatusOK {
		return nil
	}
	return answer
}

// transfers keeps eight files on their way, four to a gateway and four from others, for about as long as a round of
// messages takes, or until stop is called. nil: the program transfers no files.
func (c *contender) transfers(ctx context.Context, round int) (stop func()) {
	var file struct{ ID string }
	if err := json.Unmarshal(c.transfer(ctx, 1, http.MethodPost, "/relay/media", bytes.NewReader(make([]byte, fileSize))), &file); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.transfer(ctx, 1, http.MethodGet, "/relay/media/"+file.ID, nil)
			}
		})
		wg.Go(func() {
			c.transfer(ctx, 2+4*round+n, http.MethodPost, "/relay/media", &slowly{ctx: ctx, left: fileSize})
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}
