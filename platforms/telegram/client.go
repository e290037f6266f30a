package telegram

import (
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

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	defaultBase = "https://api.telegram.org"
	// callTimeout bounds one call that is no long poll. A gateway gives up on an action after
	// 30 s, so a later answer would find nobody.
	callTimeout = 30 * time.Second
	// maxAnswer bounds one answer of the API, in bytes. A hundred updates of the largest kind
	// stay far below it.
	maxAnswer = 64 << 20
)

// client speaks the Bot API. It is the only place that sees the token, and the one choke point
// every error passes: what it returns is free of the token in any spelling.
//
// Long polls and everything else travel on separate connections, so a poll that hangs does not
// hold up a message. Both speak HTTP/1.1: over HTTP/2 they would share one connection again.
type client struct {
	// Set once, by newClient.
	token    relay.Secret
	endpoint string // format with two verbs: token and method
	polls    *http.Client
	calls    *http.Client
}

// newClient returns a client for the API at base; an empty base is Telegram's own. rt carries
// everything when it is not nil.
func newClient(token relay.Secret, base string, rt http.RoundTripper) *client {
	if base == "" {
		base = defaultBase
	}
	base = strings.ReplaceAll(strings.TrimRight(base, "/"), "%", "%%")
	return &client{
		token:    token,
		endpoint: base + "/bot%s/%s",
		polls:    newHTTPClient(rt),
		calls:    newHTTPClient(rt),
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
func (c *client) closeIdle() {
	c.polls.CloseIdleConnections()
	c.calls.CloseIdleConnections()
}

// call carries out one method and decodes its result into out, unless out is nil. Every error
// is an *apiError. It takes at most callTimeout.
func (c *client) call(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.do(ctx, c.calls, method, params, out)
}

// poll is call for a method that answers late: the caller's context bounds it.
func (c *client) poll(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	return c.do(ctx, c.polls, method, params, out)
}

func (c *client) do(ctx context.Context, hc *http.Client, method string, params tgbotapi.Params, out any) error {
	var s progress
	// Made per call: the context is the call's, and no plain token rests where it could be printed.
	bot := tgbotapi.BotAPI{Token: c.token.RevealString(), Client: s.through(ctx, hc)}
	bot.SetAPIEndpoint(c.endpoint)

	resp, err := bot.MakeRequest(method, params)
	if err != nil {
		return c.explain(method, &s, ctx.Err(), err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(resp.Result, out); err != nil {
		return &apiError{Method: method, Code: s.status, Description: "the result makes no sense: " + decodeFault(err)}
	}
	return nil
}

// explain sorts what MakeRequest returned. ctxErr is the error of the call's context.
func (c *client) explain(method string, s *progress, ctxErr, err error) *apiError {
	e := &apiError{Method: method, Code: s.status}
	var te *tgbotapi.Error
	switch {
	case errors.As(err, &te) && (te.Code != 0 || te.Message != ""):
		e.Description = c.scrub(te.Message)
		e.RetryAfter = time.Duration(te.RetryAfter) * time.Second
		e.MigrateTo = te.MigrateToChatID
		if te.Code != 0 {
			e.Code = te.Code
		}
		if e.Code >= 300 && e.Code < 500 {
			e.Sent = sentRefused
		}
	case s.status != 0 && ctxErr == nil: // an answer, but not one of the API: a proxy's page, half an answer
		e.Description = fmt.Sprintf("HTTP %d and no answer of the Bot API", s.status)
	default:
		if !s.left.Load() {
			e.Sent = sentNever
		}
		e.cause = ctxErr
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL
		}
		e.Description = c.scrub(err.Error())
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

// scrub removes the token from text, however it was spelled.
func (c *client) scrub(text string) string {
	token := c.token.RevealString()
	if token == "" {
		return text
	}
	escaped := url.QueryEscape(token)
	text = strings.NewReplacer(
		token, relay.Redacted,
		escaped, relay.Redacted,
		strings.ToLower(escaped), relay.Redacted,
		strings.ReplaceAll(escaped, "%3A", "%3a"), relay.Redacted,
	).Replace(text)
	// The half after the colon is the secret one. A toy secret of a test server would shred the text.
	if _, secret, _ := strings.Cut(token, ":"); len(secret) >= 8 {
		text = strings.ReplaceAll(text, secret, relay.Redacted)
	}
	return text
}

// sentState says whether a failed call may have had an effect. The zero value is the cautious one.
type sentState int

const (
	sentMaybe   sentState = iota // the request may have been carried out
	sentNever                    // the request did not leave this machine
	sentRefused                  // the API answered that it did not carry the request out
)

// apiError is why a call had no result. It never contains the token.
type apiError struct {
	Method string
	// Code is the API's error_code; the HTTP status when the answer was not the API's; 0 when
	// there was no answer.
	Code        int
	Description string // the API's words, or ours
	// RetryAfter is how long the API asked to be left alone; 0 when it did not.
	RetryAfter time.Duration
	MigrateTo  int64 // the chat's new id; 0 when it has not moved
	Sent       sentState
	cause      error // the context's error when that ended the call
}

func (e *apiError) Error() string {
	if e.Code == 0 {
		return e.Method + ": " + e.Description
	}
	return fmt.Sprintf("%s: %d %s", e.Method, e.Code, e.Description)
}

// Unwrap returns context.Canceled or context.DeadlineExceeded when that ended the call, else nil.
func (e *apiError) Unwrap() error { return e.cause }

// progress is how far the HTTP side of one call got.
type progress struct {
	left   atomic.Bool // the request's header is complete, so the request may have left
	status int         // HTTP status of the answer; 0 when there was none
}

// doFunc implements tgbotapi.HTTPClient. The library knows no contexts, so each call gets its own.
type doFunc func(*http.Request) (*http.Response, error)

// Do implements tgbotapi.HTTPClient.
func (f doFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func (s *progress) through(ctx context.Context, hc *http.Client) doFunc {
	return func(r *http.Request) (*http.Response, error) {
		// Until the header is complete no server can act on the request. The trace runs on the
		// transport's goroutine.
		ctx := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaders: func() { s.left.Store(true) },
		})
		resp, err := hc.Do(r.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		s.status = resp.StatusCode
		s.left.Store(true) // a transport that is not net/http's may not trace
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
		return resp, nil
	}
}
