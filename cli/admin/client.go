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

	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// patience is how long a server may take to answer. The longest operation asks a platform where a
// chat lies, for a few seconds.
const patience = 30 * time.Second

// Client asks for operations. Refusals are *manage.Error.
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

func call[R any](ctx context.Context, c *Client, op string, args any) (result R, err error) {
	body, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("%s: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/v1/"+op, bytes.NewReader(body))
	if err != nil {
		return result, fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set(actorHeader, whoami())
	resp, err := c.via.RoundTrip(req)
	if err != nil {
		return result, fmt.Errorf("ask the running server to %s: %w", op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return result, fmt.Errorf("the running server's answer to %s: %w", op, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(raw, &result); err != nil {
			return result, fmt.Errorf("the running server's answer to %s: %w", op, err)
		}
		return result, nil
	}
	var f failure
	if err := json.Unmarshal(raw, &f); err != nil {
		return result, fmt.Errorf("the running server does not know how to %s: it is of another version; restart it", op)
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

// nothing is the argument of operations that take none.
type nothing struct{}

// Enroll is manage.Service.Enroll, wherever the service is.
func (c *Client) Enroll(ctx context.Context, a manage.Enroll) (manage.Enrolled, error) {
	return call[manage.Enrolled](ctx, c, opEnroll, a)
}

// EnrollToken is manage.Service.EnrollToken, wherever the service is.
func (c *Client) EnrollToken(ctx context.Context, a manage.Enroll) (manage.EnrollmentToken, error) {
	return call[manage.EnrollmentToken](ctx, c, opEnrollToken, a)
}

// Gateways is manage.Service.Gateways, wherever the service is.
func (c *Client) Gateways(ctx context.Context) ([]manage.Gateway, error) {
	return call[[]manage.Gateway](ctx, c, opGateways, nothing{})
}

// Gateway is manage.Service.Gateway, wherever the service is.
func (c *Client) Gateway(ctx context.Context, a manage.Named) (manage.Gateway, error) {
	return call[manage.Gateway](ctx, c, opGateway, a)
}

// Rotate is manage.Service.Rotate, wherever the service is.
func (c *Client) Rotate(ctx context.Context, a manage.Named) (manage.Enrolled, error) {
	return call[manage.Enrolled](ctx, c, opRotate, a)
}

// Revoke is manage.Service.Revoke, wherever the service is.
func (c *Client) Revoke(ctx context.Context, a manage.Named) (manage.Gateway, error) {
	return call[manage.Gateway](ctx, c, opRevoke, a)
}

// Link is manage.Service.Link, wherever the service is.
func (c *Client) Link(ctx context.Context, a manage.LinkFor) (manage.Link, error) {
	return call[manage.Link](ctx, c, opLink, a)
}

// Bind is manage.Service.Bind, wherever the service is.
func (c *Client) Bind(ctx context.Context, a manage.Bind) (manage.Binding, error) {
	return call[manage.Binding](ctx, c, opBind, a)
}

// Unbind is manage.Service.Unbind, wherever the service is.
func (c *Client) Unbind(ctx context.Context, a manage.Bind) (manage.Binding, error) {
	return call[manage.Binding](ctx, c, opUnbind, a)
}

// Claim is manage.Service.Claim, wherever the service is.
func (c *Client) Claim(ctx context.Context, a manage.Scope) (manage.Grant, error) {
	return call[manage.Grant](ctx, c, opClaim, a)
}

// Release is manage.Service.Release, wherever the service is.
func (c *Client) Release(ctx context.Context, a manage.Scope) (manage.Grant, error) {
	return call[manage.Grant](ctx, c, opRelease, a)
}

// Scopes is manage.Service.Scopes, wherever the service is.
func (c *Client) Scopes(ctx context.Context, a manage.Named) ([]manage.Grant, error) {
	return call[[]manage.Grant](ctx, c, opScopes, a)
}

// SetPrincipal is manage.Service.SetPrincipal, wherever the service is.
func (c *Client) SetPrincipal(ctx context.Context, a manage.SetPrincipal) (manage.Principal, error) {
	return call[manage.Principal](ctx, c, opSetPrincipal, a)
}

// SetRelevance is manage.Service.SetRelevance, wherever the service is.
func (c *Client) SetRelevance(ctx context.Context, a manage.SetRelevance) (manage.Relevance, error) {
	return call[manage.Relevance](ctx, c, opSetRelevance, a)
}

// Status is manage.Service.Status, wherever the service is.
func (c *Client) Status(ctx context.Context) (manage.Status, error) {
	return call[manage.Status](ctx, c, opStatus, nothing{})
}

// Explain is manage.Service.Explain, wherever the service is.
func (c *Client) Explain(ctx context.Context, a manage.Explain) ([]gate.Decision, error) {
	return call[[]gate.Decision](ctx, c, opExplain, a)
}

// Entries is manage.Service.Entries, wherever the service is.
func (c *Client) Entries(ctx context.Context, a manage.Named) ([]manage.Entry, error) {
	return call[[]manage.Entry](ctx, c, opEntries, a)
}

// Dead is manage.Service.Dead, wherever the service is.
func (c *Client) Dead(ctx context.Context, a manage.Named) ([]manage.DeadEntry, error) {
	return call[[]manage.DeadEntry](ctx, c, opDead, a)
}

// Replay is manage.Service.Replay, wherever the service is.
func (c *Client) Replay(ctx context.Context, a manage.Letters) (manage.Moved, error) {
	return call[manage.Moved](ctx, c, opReplay, a)
}

// Drop is manage.Service.Drop, wherever the service is.
func (c *Client) Drop(ctx context.Context, a manage.Letters) (manage.Moved, error) {
	return call[manage.Moved](ctx, c, opDrop, a)
}

// SetDMDefault is manage.Service.SetDMDefault, wherever the service is.
func (c *Client) SetDMDefault(ctx context.Context, a manage.Bind) (manage.Binding, error) {
	return call[manage.Binding](ctx, c, opDMDefault, a)
}

// Identity is manage.Service.Identity, wherever the service is.
func (c *Client) Identity(ctx context.Context, a manage.Named) (manage.IdentityURL, error) {
	return call[manage.IdentityURL](ctx, c, opIdentity, a)
}

// DropIdentity is manage.Service.DropIdentity, wherever the service is.
func (c *Client) DropIdentity(ctx context.Context, a manage.Named) (manage.Moved, error) {
	return call[manage.Moved](ctx, c, opDropIdentity, a)
}

// Routes is manage.Service.Routes, wherever the service is.
func (c *Client) Routes(ctx context.Context, a manage.Named) ([]manage.Route, error) {
	return call[[]manage.Route](ctx, c, opRoutes, a)
}

// DropRoute is manage.Service.DropRoute, wherever the service is.
func (c *Client) DropRoute(ctx context.Context, a manage.RouteKey) (manage.RouteKey, error) {
	return call[manage.RouteKey](ctx, c, opDropRoute, a)
}

// Audit is manage.Service.Audit, wherever the service is.
func (c *Client) Audit(ctx context.Context, a manage.AuditQuery) ([]manage.AuditRow, error) {
	return call[[]manage.AuditRow](ctx, c, opAudit, a)
}

// Quarantine is manage.Service.Quarantine, wherever the service is.
func (c *Client) Quarantine(ctx context.Context) ([]manage.Quarantined, error) {
	return call[[]manage.Quarantined](ctx, c, opQuarantine, nothing{})
}
