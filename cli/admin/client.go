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
	"syscall"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// patience is how long a server may take to answer. The longest operation asks a platform about a chat, which takes a
// few seconds.
const patience = 30 * time.Second

// Client is the way by which Ask carries out operations on a Service, in this process or in a running server.
type Client struct {
	via http.RoundTripper // sends requests to the socket; nil if svc is set
	svc *manage.Service   // nil: a running server has the Service
	db  string            // the database of svc
}

// Dial makes a client of the server that listens on path. It returns ErrNoServer if none listens.
func Dial(ctx context.Context, path string) (*Client, error) {
	dial := func(ctx context.Context) (net.Conn, error) {
		if err := foreign(path); err != nil {
			return nil, err
		}
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

// Local makes a client of a Service in this process, which uses the database at path.
func Local(path string, svc *manage.Service) *Client { return &Client{svc: svc, db: path} }

// Database returns the path of the database, if the client uses it in this process; otherwise it is empty.
func (c *Client) Database() string { return c.db }

// Ask carries out the operation with args, in this process or through the running server. A refusal is a *manage.Error.
func Ask[A, R any](ctx context.Context, c *Client, op ops.Op[A, R], args A) (result R, err error) {
	if c.svc != nil {
		return op.Do(ctx, c.svc, operator(whoami()), args)
	}
	err = c.ask(ctx, op.Name, args, &result)
	return result, err
}

// Server asks the server that listens for its folder and configuration. It waits two seconds only, because this may not
// be the server that the user means.
func (c *Client) Server(ctx context.Context) (s Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = c.ask(ctx, opServer, struct{}{}, &s)
	return s, err
}

// ask makes the running server carry out the operation op, and decodes its answer into result.
func (c *Client) ask(ctx context.Context, op string, args, result any) error {
	resp, err := c.post(ctx, op, args)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	done := resp.StatusCode == http.StatusOK
	if err == nil && done {
		err = json.Unmarshal(raw, result)
	}
	if err != nil {
		err = fmt.Errorf("the running server's answer to %s: %w", op, err)
	}
	if err != nil || done {
		return err
	}
	return refusal(op, raw)
}

// refusal decodes the error in a server's answer.
func refusal(op string, raw []byte) error {
	var refused manage.Error
	switch err := json.Unmarshal(raw, &refused); {
	case err != nil:
		return fmt.Errorf("the running server does not know how to %s: the server is of another version; restart it", op)
	case refused.Why != "":
		return &refused
	}
	return errors.New(refused.Message)
}

// post sends a request for an operation to the running server.
func (c *Client) post(ctx context.Context, op string, args any) (*http.Response, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/v1/"+op, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set(actorHeader, whoami())
	resp, err := c.via.RoundTrip(req)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil, fmt.Errorf("the server ended while it was asked for %q: whether that was done is not known; try again once it runs", op)
	}
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return nil, errors.New("the running server does not answer: hermes-connector doctor says more")
	}
	if err != nil {
		return nil, fmt.Errorf("ask the running server to %s: %w", op, err)
	}
	return resp, nil
}

// whoami returns the name of the user who runs this process, or the user id if there is no name.
func whoami() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
