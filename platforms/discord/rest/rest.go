// Package rest is Discord's REST API for one bot. It sends requests, keeps them to the rates that Discord names in its
// answers, shares those rates among the instances, and declines requests that Discord would only refuse again. The
// endpoints are discordgo's. The HTTP client and the limiter are its own, because the library's sleep while they hold a
// lock, ignore contexts, and repeat requests that must not be repeated.
//
// Invariants:
//
//  1. Every error is an *httpcall.Fault, free of the bot's token and of an interaction's token in the path.
//  2. A request that cannot leave before its deadline is refused as soon as that is certain, and uses up nothing.
//  3. Fewer than maxRefused requests in ten minutes are refused, however they come.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	defaultBase = "https://discord.com/api"
	// APIVersion is the version of the REST API and of the gateway. The library's is older.
	APIVersion = "10"
	// UserAgent is in the form Discord asks for.
	UserAgent = "DiscordBot (https://github.com/hermes-connector/hermes-connector, 1)"
	// maxAnswer bounds one answer, in bytes. A hundred messages with all their embeds stay below it.
	maxAnswer = 16 << 20
)

// Client speaks the REST API. Methods may be called from any goroutine. Endpoints are discordgo's, with or
// without a query.
type Client struct {
	// Set once, by New.
	Token   relay.Secret
	Base    string           // with the version
	Direct  *httpcall.Client // for call-backs and the gateway: nothing may hold them up
	calls   *httpcall.Client
	limiter *limiter
	noes    noes
}

// New returns a client for the API at base (without a version); an empty base is Discord's own. rt carries all requests
// if it is not nil.
func New(token relay.Secret, base string, rt http.RoundTripper) *Client {
	if base == "" {
		base = defaultBase
	}
	return &Client{
		Token:   token,
		Base:    strings.TrimRight(base, "/") + "/v" + APIVersion,
		Direct:  httpcall.New(token, rt, maxAnswer),
		calls:   httpcall.New(token, rt, maxAnswer),
		limiter: newLimiter(),
	}
}

// CloseIdle drops connections nobody uses. The client stays usable.
func (c *Client) CloseIdle() {
	c.calls.HTTP.CloseIdleConnections()
	c.Direct.HTTP.CloseIdleConnections()
}

// Clock returns Discord's time now, to about a second; zero: Discord has not answered since then.
func (c *Client) Clock(since time.Time) time.Time { return c.calls.Clock(since) }

// Afresh returns c for questions that a remembered refusal must not answer.
func (c *Client) Afresh() Afresh { return Afresh{c} }

// Afresh makes the requests of a Client, and ignores the Client's remembered refusals.
type Afresh struct{ c *Client }

// Do is Client.Do, but asks Discord even if a refusal of the request is remembered.
func (a Afresh) Do(ctx context.Context, method, endpoint string, body, out any) error {
	return a.c.do(ctx, method, endpoint, body, out, true)
}

// Scrub removes the token from text.
func (c *Client) Scrub(text string) string { return c.calls.Scrub(text) }

// Do carries out one request and decodes the answer into out, unless out is nil. body becomes JSON,
// unless it is nil or an httpcall.Form. It takes at most httpcall.Timeout.
func (c *Client) Do(ctx context.Context, method, endpoint string, body, out any) error {
	return c.do(ctx, method, endpoint, body, out, false)
}

// do is Do. afresh: it sends the request even if a refusal of it is remembered.
func (c *Client) do(ctx context.Context, method, endpoint string, body, out any, afresh bool) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	path := pathOf(endpoint)
	route := RouteOf(method, path)
	if err := c.noes.known(method+" "+path, topLevel(route)); err != nil && !afresh {
		return err
	}
	if err := c.limiter.wait(ctx, route, false); err != nil {
		return err
	}
	err := c.roundTrip(ctx, c.calls, method, path, body, out)
	if f := httpcall.FaultOf(err); staysNo(method, path, f) {
		c.noes.remember(method+" "+path, f, noFor)
	}
	return err
}

// CallBack is Do for the answer to an interaction. Discord does not limit these, so it waits for no limiter.
func (c *Client) CallBack(ctx context.Context, endpoint string, body any) error {
	return c.roundTrip(ctx, c.Direct, http.MethodPost, pathOf(endpoint), body, nil)
}

// WaitOpen blocks until a request could leave, and sends none. Its errors are like those of Do.
func (c *Client) WaitOpen(ctx context.Context, method, endpoint string) error {
	return c.limiter.wait(ctx, RouteOf(method, endpoint), true)
}

// OpensIn returns how long a request would have to wait at least.
func (c *Client) OpensIn(ctx context.Context, method, endpoint string) time.Duration {
	return c.limiter.opensIn(ctx, RouteOf(method, endpoint))
}

// Bury makes Do decline every request with the token of a web hook, because Discord refused that token with f.
func (c *Client) Bury(endpoint string, f *httpcall.Fault) {
	c.noes.remember(topLevel(RouteOf("", endpoint)), f, TokenFor)
}

// roundTrip sends one request, lets the limiter learn from the answer, and decodes it into out, unless out is nil.
func (c *Client) roundTrip(ctx context.Context, via *httpcall.Client, method, path string, body, out any) error {
	route, hidden := RouteOf(method, path), secretsIn(path)
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return &httpcall.Fault{What: route, Sent: httpcall.Never, Message: via.Scrub(err.Error(), hidden...)}
	}
	a, fault := via.Do(req, route, hidden...)
	c.limiter.seen(ctx, route, a.Header, a.Status)
	switch {
	case a.Status >= 300:
		f := refused(route, a, func(s string) string { return via.Scrub(s, hidden...) })
		if a.Sent == httpcall.Never && f.Sent == httpcall.Maybe {
			f.Sent = httpcall.Never // Discord answered before the whole form was sent
		}
		return f
	case fault != nil:
		return fault
	case out == nil:
		return nil
	}
	if err := httpcall.Decode(a.Body, out); err != nil {
		f := &httpcall.Fault{What: route, Status: a.Status, Message: "the answer makes no sense: " + err.Error()}
		if !json.Valid(a.Body) { // for example a log-in page in front of Discord
			f.Message = httpcall.NoAnswer
		}
		return f
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (req *http.Request, err error) {
	switch body := body.(type) {
	case nil:
		req, err = http.NewRequestWithContext(ctx, method, c.Base+path, nil)
	case httpcall.Form:
		if req, err = body.Request(ctx, c.Base+path); err == nil {
			req.Method = method
		}
	default:
		var raw []byte
		if raw, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("request: body: %w", err)
		}
		if req, err = http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(raw)); err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Authorization", "Bot "+c.Token.RevealString())
	req.Header.Set("User-Agent", UserAgent)
	return req, nil
}

// Places are the parts of a request's body in which Discord found faults: keys of an object, or indexes of a list. They
// are a Fault's Detail.
type Places map[string]struct{}

// refused returns the error in an answer.
func refused(route string, a httpcall.Answer, scrub func(string) string) *httpcall.Fault {
	var body struct {
		Code       int             `json:"code"`
		Message    string          `json:"message"`
		RetryAfter json.Number     `json:"retry_after"`
		Global     bool            `json:"global"`
		Errors     json.RawMessage `json:"errors"` // by where in the request's body
	}
	f := &httpcall.Fault{What: route, Status: a.Status, Message: httpcall.NoAnswer}
	if json.Unmarshal(a.Body, &body) == nil && (body.Message != "" || body.Code != 0) { // otherwise the answer is from a proxy or a login page
		f.Code, f.Message = body.Code, scrub(body.Message)
		var at Places
		if json.Unmarshal(body.Errors, &at) == nil {
			f.Detail = at
		}
	}
	if a.Status < 500 {
		f.Sent = httpcall.Refused
	}
	if a.Status == http.StatusTooManyRequests {
		f.Whom = httpcall.Chat
		if body.Global || isGlobal(a.Header) {
			f.Whom = httpcall.Bot
		}
		after, _ := httpcall.Seconds(body.RetryAfter.String())
		f.RetryAfter = max(after, retryAfter(a.Header))
	}
	return f
}
