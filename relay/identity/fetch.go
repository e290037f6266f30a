package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// askFor bounds one question to another server, its answer's body included. A gateway waits
	// 15 s for us (wire.md 1).
	askFor = 5 * time.Second
	// maxAnswer bounds the body of an answer, in bytes.
	maxAnswer = 1 << 20
)

// newClient makes a client of c's transport that follows no redirect: a bearer is sent to the operator's address and
// nowhere else.
func newClient(c *http.Client) *http.Client {
	if c == nil {
		// One connection per question: questions are rare, and no idle connection is left to be closed.
		c = &http.Client{Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		}}
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// get sends a GET to address, with bearer as the Authorization if bearer is not empty. The body is read for status 200
// only.
func get(ctx context.Context, c *http.Client, address, bearer string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	r.Header.Set("Accept", "application/json")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	defer func() { _ = answer.Body.Close() }() // nothing was written
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode, nil, nil
	}
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		body, err = nil, fmt.Errorf("longer than %d bytes", maxAnswer)
	}
	return answer.StatusCode, body, err
}

// withoutURL takes the address out of an error: its query may hold a credential.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
