package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// patience is how long a server may take to answer. The longest operation asks a platform where a
// chat lies, for a few seconds.
const patience = 30 * time.Second

// Client is the way to a Service; see Op.Ask.
type Client struct{ via http.RoundTripper }

// Dial makes a client of the server that listens on path. ErrNoServer: nobody does.
func Dial(ctx context.Context, path string) (*Client, error) {
	dial := func(ctx context.Context) (net.Conn, error) {
		usable, release, err := short(path)
		if err != nil {
			return nil, err
		}
		defer release()
		var d net.Dialer
		return d.DialContext(ctx, "unix", usable)
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, dialError(path, err)
	}
	_ = conn.Close()
	return &Client{via: &http.Transport{
		DisableKeepAlives:     true,
		ResponseHeaderTimeout: patience,
		ReadBufferSize:        2 * maxTrailer,
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}, nil
}

// Local makes a client of a Service in this process.
func Local(svc *manage.Service) *Client { return &Client{via: local{Handler(svc)}} }

// local is a round trip that leaves no process.
type local struct{ h http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{code: http.StatusOK, header: make(http.Header)}
	l.h.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.code, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

type recorder struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// Ask carries out the operation with args, wherever the service of c is. Refusals are *manage.Error.
func (o Op[A, R]) Ask(ctx context.Context, c *Client, args A) (result R, err error) {
	body, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("%s: %w", o.name, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/v1/"+o.name, bytes.NewReader(body))
	if err != nil {
		return result, fmt.Errorf("%s: %w", o.name, err)
	}
	req.Header.Set(actorHeader, whoami())
	resp, err := c.via.RoundTrip(req)
	if err != nil {
		return result, fmt.Errorf("ask the running server to %s: %w", o.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return result, fmt.Errorf("the running server's answer to %s: %w", o.name, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(raw, &result); err != nil {
			return result, fmt.Errorf("the running server's answer to %s: %w", o.name, err)
		}
		return result, nil
	}
	var f failure
	if err := json.Unmarshal(raw, &f); err != nil {
		return result, fmt.Errorf("the running server does not know how to %s: it is of another version; restart it", o.name)
	}
	if f.Kind != "" {
		return result, &manage.Error{Kind: f.Kind, Message: f.Error, Field: f.Field}
	}
	return result, errors.New(f.Error)
}

// whoami is the name of the user who runs this process, or the number where there is no name.
func whoami() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
