// Package call is one HTTP call to a chat network: the connections it uses, how long it and its answer
// may be, whether it left this machine, and why it failed, free of the bot's token.
//
// It knows no network: what an answer means, the network's own client says, in the same Fault.
//
// Invariants:
//
//  1. A Fault is Never only if no server can have acted on the request: its header was not complete.
//  2. No Fault has the token in it, in any spelling.
//  3. Nothing is repeated here, and no redirect is followed.
package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Timeout bounds one call that is no long poll. A gateway gives up on an action after 30 s, so a later
// answer would find nobody.
const Timeout = 30 * time.Second

// Client carries the calls of one bot. Every client has connections of its own, so that calls that hang
// do not hold up those of another one.
type Client struct {
	// Set once, by New.
	HTTP      *http.Client
	token     relay.Secret
	maxAnswer int64
}

// New makes a client for the bot of token, which takes answers of at most maxAnswer bytes. rt carries
// everything when it is not nil.
func New(token relay.Secret, rt http.RoundTripper, maxAnswer int64) *Client {
	if rt == nil {
		rt = &http.Transport{ // of HTTP/1.1: over HTTP/2 all clients of one address would share a connection
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 16, // as many as a session's actions in flight
			// Shorter than any server's own patience: writing to a connection the server is
			// just closing makes an outcome unknown that need not be.
			IdleConnTimeout: 30 * time.Second,
		}
	}
	return &Client{token: token, maxAnswer: maxAnswer, HTTP: &http.Client{
		Transport: rt,
		// A redirect would carry the token elsewhere. No network's API sends one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Answer is what came back for a request.
type Answer struct {
	Status int // of HTTP; 0: nothing came back
	Header http.Header
	Body   []byte
}

// Do carries out req, which the Fault calls what. secrets are texts beside the token that no Fault may
// hold. With a Fault the answer is what there is of one.
func (c *Client) Do(req *http.Request, what string, secrets ...string) (Answer, *Fault) {
	ctx := req.Context()
	// Until the header is complete no server can act on the request. The trace runs on the
	// transport's goroutine.
	var left atomic.Bool
	resp, err := c.HTTP.Do(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { left.Store(true) },
	})))
	var a Answer
	if err == nil {
		left.Store(true) // a transport that is not net/http's may not trace
		a.Status, a.Header = resp.StatusCode, resp.Header
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
		_ = resp.Body.Close()
		if err == nil && int64(len(a.Body)) > c.maxAnswer {
			err = fmt.Errorf("an answer of more than %d bytes", c.maxAnswer)
		}
	}
	if err == nil {
		return a, nil
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL, which may hold a secret
	}
	f := &Fault{What: what, Status: a.Status, Message: c.Scrub(err.Error(), secrets...), Cause: ctx.Err()}
	if !left.Load() {
		f.Sent = Never
	}
	return a, f
}

// Scrub removes the token from text, however it is spelled, and secrets.
func (c *Client) Scrub(text string, secrets ...string) string {
	token := c.token.RevealString()
	escaped := url.QueryEscape(token)
	hidden := []string{token, escaped, strings.ToLower(escaped), strings.ReplaceAll(escaped, "%3A", "%3a")}
	// The last part is the secret one. A toy secret of a test server would shred the text.
	if secret := token[strings.LastIndexAny(token, ":.")+1:]; len(secret) >= 8 {
		hidden = append(hidden, secret)
	}
	for _, s := range append(hidden, secrets...) {
		if s != "" {
			text = strings.ReplaceAll(text, s, relay.Redacted)
		}
	}
	return text
}

// Decode is json.Unmarshal for what a network sent: its error does not quote it. Errors that wrap one of
// sayable are returned as they are.
func Decode(raw []byte, out any, sayable ...error) error {
	err := json.Unmarshal(raw, out)
	if err == nil || slices.ContainsFunc(sayable, func(s error) bool { return errors.Is(err, s) }) {
		return err
	}
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		kind, _, _ := strings.Cut(te.Value, " ")
		return fmt.Errorf("%s in field %q where %s belongs", kind, te.Field, te.Type)
	}
	return errors.New("not the JSON expected")
}

// Seconds reads a number of seconds with or without a fraction. More than a day is a day.
func Seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return time.Duration(min(f, (24*time.Hour).Seconds()) * float64(time.Second)), true
}
