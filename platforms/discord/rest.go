package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	defaultBase = "https://discord.com/api"
	apiVersion  = "10"
	userAgent   = "DiscordBot (https://github.com/hermes-connector/hermes-connector, 1)"
	// callTimeout bounds one request. A gateway gives up on an action after 30 s, so a later
	// answer would find nobody.
	callTimeout = 30 * time.Second
	// maxAnswer bounds one answer of the API, in bytes. A hundred messages with all their embeds
	// stay below it.
	maxAnswer = 16 << 20
)

// limiter holds a request back until Discord's rate limits let it leave, and learns from answers.
type limiter interface {
	// wait returns nil when a request of the route may leave now. Otherwise it returns, without
	// waiting past ctx's deadline, an *apiError with Sent == sentNever that says why not.
	wait(ctx context.Context, route string) error
	// seen learns from an answer's header and status. status 0: there was none.
	seen(ctx context.Context, route string, h http.Header, status int)
	// knownNo is an *apiError when Discord has refused the same request a moment ago for good.
	knownNo(method, path string) error
	// noteNo learns from a request's error.
	noteNo(method, path string, err error)
}

// rest speaks Discord's REST API. It is the one choke point every error passes: what it returns is
// free of the token.
type rest struct {
	// Set once, by newREST.
	token  relay.Secret
	base   string // with the version
	http   *http.Client
	limits limiter
}

// newREST returns a client for the API at base (without a version); an empty base is Discord's own.
// rt carries everything when it is not nil; otherwise each client has connections of its own.
func newREST(token relay.Secret, base string, rt http.RoundTripper, limits limiter) *rest {
	if base == "" {
		base = defaultBase
	}
	return &rest{
		token:  token,
		base:   strings.TrimRight(base, "/") + "/v" + apiVersion,
		http:   newHTTPClient(rt),
		limits: limits,
	}
}

func newHTTPClient(rt http.RoundTripper) *http.Client {
	if rt == nil {
		rt = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 16, // as many as a session's actions in flight
			// Shorter than any server's own patience: writing to a connection the server is
			// just closing makes an outcome unknown that need not be.
			IdleConnTimeout: 30 * time.Second,
		}
	}
	return &http.Client{
		Transport: rt,
		// A redirect would carry the token elsewhere. The API never sends one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// closeIdle drops connections nobody uses. The client stays usable.
func (c *rest) closeIdle() { c.http.CloseIdleConnections() }

// do carries out one request and decodes the answer into out, unless out is nil. route is the
// bucket key for the limiter: method and path with every id but the top-level one left out. path
// begins with a slash and stands behind the version; body is JSON, or nil. Every error is an
// *apiError. It takes at most callTimeout.
func (c *rest) do(ctx context.Context, method, route, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.limits.knownNo(method, path); err != nil {
		return err
	}
	if err := c.limits.wait(ctx, route); err != nil {
		var ae *apiError
		if errors.As(err, &ae) {
			return ae
		}
		return &apiError{Route: route, Sent: sentNever, Message: c.scrub(err.Error()), cause: err}
	}
	err := c.roundTrip(ctx, c.http, method, route, path, body, out)
	c.limits.noteNo(method, path, err)
	return err
}

// roundTrip is do without the limiter's leave; the limiter still learns from the answer.
func (c *rest) roundTrip(ctx context.Context, hc *http.Client, method, route, path string, body, out any) error {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return &apiError{Route: route, Sent: sentNever, Message: c.scrub(err.Error())}
	}
	// Until the header is complete no server can act on the request. The trace runs on the
	// transport's goroutine.
	var left atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { left.Store(true) },
	}))
	resp, err := hc.Do(req)
	if err != nil {
		c.limits.seen(ctx, route, nil, 0)
		return c.broken(ctx, route, left.Load(), err)
	}
	defer func() { _ = resp.Body.Close() }()
	c.limits.seen(ctx, route, resp.Header, resp.StatusCode)
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if resp.StatusCode >= 300 {
		return c.refused(route, resp, raw)
	}
	if err != nil {
		ae := c.broken(ctx, route, true, err)
		ae.Status = resp.StatusCode
		return ae
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return &apiError{Route: route, Status: resp.StatusCode, Message: "the answer makes no sense: " + decodeFault(err)}
	}
	return nil
}

func (c *rest) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Authorization", "Bot "+c.token.RevealString())
	req.Header.Set("User-Agent", userAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// broken is the error of a request that got no whole answer. left says whether it may have left.
func (c *rest) broken(ctx context.Context, route string, left bool, err error) *apiError {
	e := &apiError{Route: route, cause: ctx.Err()}
	if !left {
		e.Sent = sentNever
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL: a path can hold an interaction's token
	}
	e.Message = c.scrub(err.Error())
	return e
}

// refused is the error in an answer.
func (c *rest) refused(route string, resp *http.Response, raw []byte) *apiError {
	var body struct {
		Code       int             `json:"code"`
		Message    string          `json:"message"`
		RetryAfter json.Number     `json:"retry_after"`
		Global     bool            `json:"global"`
		Errors     json.RawMessage `json:"errors"` // by where in the request's body
	}
	e := &apiError{Route: route, Status: resp.StatusCode}
	if json.Unmarshal(raw, &body) != nil {
		e.Message = "no answer of the API"
	} else {
		e.Code, e.Message, e.Global = body.Code, c.scrub(body.Message), body.Global
		_ = json.Unmarshal(body.Errors, &e.faults) // what is told otherwise does not count
	}
	if resp.StatusCode < 500 {
		e.Sent = sentRefused
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		e.Scope = resp.Header.Get("X-RateLimit-Scope")
		e.Global = e.Global || isGlobal(resp.Header)
		after, _ := seconds(body.RetryAfter.String())
		e.RetryAfter = max(after, retryAfter(resp.Header))
	}
	return e
}

// decodeFault names a JSON error without the value that caused it.
func decodeFault(err error) string {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		kind, _, _ := strings.Cut(te.Value, " ")
		return fmt.Sprintf("%s in field %q where %s belongs", kind, te.Field, te.Type)
	}
	return "not the JSON expected"
}

// scrub removes the token from text.
func (c *rest) scrub(text string) string {
	token := c.token.RevealString()
	if token == "" {
		return text
	}
	text = strings.ReplaceAll(text, token, relay.Redacted)
	// The last part is the secret one. A toy secret of a test server would shred the text.
	if secret := token[strings.LastIndexByte(token, '.')+1:]; len(secret) >= 8 {
		text = strings.ReplaceAll(text, secret, relay.Redacted)
	}
	return text
}

// sentState says whether a failed request may have had an effect. The zero value is the cautious one.
type sentState int

const (
	sentMaybe   sentState = iota // the request may have been carried out
	sentNever                    // the request did not leave this machine
	sentRefused                  // the API answered that it did not carry the request out
)

// apiError is why a request had no result. It never contains the token.
type apiError struct {
	Route   string // the bucket key; it holds no secret
	Status  int    // HTTP status; 0 when there was no answer
	Code    int    // Discord's JSON error code; 0 when it gave none
	Message string // Discord's words, or ours
	// RetryAfter is how long Discord asked to be left alone; 0 when it did not.
	RetryAfter time.Duration
	Global     bool   // the penalty is on the whole bot
	Scope      string // of a 429: "user", "global" or "shared"
	Sent       sentState
	faults     map[string]struct{} // the keys of the request's body, or its indexes, at which Discord found a fault
	cause      error               // the context's error when that ended the request, or what closed the way
}

func (e *apiError) Error() string {
	switch {
	case e.Status == 0:
		return e.Route + ": " + e.Message
	case e.Code == 0:
		return fmt.Sprintf("%s: HTTP %d %s", e.Route, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: HTTP %d, %d %s", e.Route, e.Status, e.Code, e.Message)
}

// Unwrap returns what ended the request before there was an answer: context.Canceled,
// context.DeadlineExceeded, a *platforms.MutedError, errOverspent, or nil.
func (e *apiError) Unwrap() error { return e.cause }
