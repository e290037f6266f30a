// Package httpcall makes one HTTP call to a chat network: it holds the connections, bounds the time and the size of the
// answer, and says in a Fault whether the call left this machine and why it failed, without the bot's token. The
// network's own client interprets answers, with the same Fault.
//
// Invariants:
//
//  1. A Fault says Never only if no server can have acted on the request: its header was not complete, or the last
//     byte of a Form or an Enclosed had not been read by the transport.
//  2. No Fault holds the token, in any spelling.
//  3. Nothing is repeated here, and no redirect is followed.
package httpcall

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

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Timeout bounds one call that is no long poll. A gateway waits 30 s for an action's result, and no longer.
const Timeout = 30 * time.Second

// Client makes the calls of one bot. Each Client has connections of its own, so that the hanging calls of one bot do
// not delay those of another.
type Client struct {
	// Set once, by New.
	HTTP      *http.Client
	token     relay.Secret
	maxAnswer int64

	ahead atomic.Pointer[clock] // from the network's newest answer with a Date; nil: no such answer yet
}

// New makes a client for the bot of token; an answer of more than maxAnswer bytes is a Fault. rt, when not nil, makes
// the round trips.
func New(token relay.Secret, rt http.RoundTripper, maxAnswer int64) *Client {
	if rt == nil {
		rt = &http.Transport{ // HTTP/1.1: over HTTP/2 all clients of one address would share a connection
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 16, // as many as a session's actions in flight
			// Servers keep connections for longer: the outcome of a request on one that is just closing is unknown.
			IdleConnTimeout: 30 * time.Second,
		}
	}
	return &Client{token: token, maxAnswer: maxAnswer, HTTP: &http.Client{
		Transport: rt,
		// A redirect would carry the token elsewhere. No network's API sends one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Answer is the response to a request.
type Answer struct {
	Status int // of HTTP; 0: nothing came back
	Header http.Header
	Body   []byte
	Sent   Sent // Never: the answer came before the request was complete, so nobody can have acted on the request
}

// Do sends req; what names it in a Fault. secrets are texts beside the token that no Fault may contain. With a Fault it
// returns as much of the answer as there is.
func (c *Client) Do(req *http.Request, what string, secrets ...string) (Answer, *Fault) {
	ctx := req.Context()
	// Until the header is complete no server can act on the request. The trace runs on the
	// transport's goroutine.
	var left, naming atomic.Bool
	resp, err := c.HTTP.Do(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { left.Store(true) },
		DNSStart:     func(httptrace.DNSStartInfo) { naming.Store(true) },
		DNSDone:      func(d httptrace.DNSDoneInfo) { naming.Store(d.Err != nil) },
	})))
	var a Answer
	up, isForm := req.Body.(*formBody)
	whole := !isForm || up.end()
	if !whole {
		a.Sent = Never
	}
	if err == nil {
		left.Store(true) // a transport that is not net/http's may not trace
		a.Status, a.Header = resp.StatusCode, resp.Header
		c.compare(resp.Header, time.Now())
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
		_ = resp.Body.Close()
		if err == nil && int64(len(a.Body)) > c.maxAnswer {
			err = fmt.Errorf("an answer of more than %d bytes", c.maxAnswer)
		}
	}
	if err == nil {
		return a, nil
	}
	err = WithoutURL(err)
	f := &Fault{What: what, Status: a.Status, Message: c.Scrub(err.Error(), secrets...), Cause: ctx.Err()}
	if !left.Load() || !whole {
		f.Sent = Never
	}
	if a.Status == 0 {
		f.Block = c.blockOf(req, err, naming.Load())
	}
	return a, f
}

// WithoutURL returns the error of a request without the URL, which may contain a secret.
func WithoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// Scrub replaces the token, in every spelling, and secrets in text by relay.Redacted.
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

// Decode is json.Unmarshal for data from a network. Its error does not quote the data, except an error that wraps one
// of sayable, which is returned unchanged.
func Decode(raw []byte, out any, sayable ...error) error {
	err := json.Unmarshal(raw, out)
	if err == nil || slices.ContainsFunc(sayable, func(s error) bool { return errors.Is(err, s) }) {
		return err
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(te.Value, " ")
		return fmt.Errorf("%s in field %q where %s belongs", kind, te.Field, te.Type)
	}
	return errors.New("not the JSON expected")
}

// Seconds reads a number of seconds with or without a fraction, and returns at most a day. It returns false if s is no
// number, or a negative one.
func Seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return time.Duration(min(f, (24*time.Hour).Seconds()) * float64(time.Second)), true
}

// Sent says whether a failed call may have had an effect. The zero value is the cautious one.
type Sent int

const (
	Maybe   Sent = iota // the call may have been carried out
	Never               // the request did not leave this machine
	Refused             // the network answered that it did not carry the call out
)

// Whom says which of the bot's requests have to pause after the network refused one.
type Whom int

const (
	Unsaid Whom = iota // the network does not say
	Chat               // those to the chat, or those of one kind in it
	Bot                // all
)

// NoAnswer is the message of a Fault when something else than the network's API answered: whatever its status, it is no
// verdict on the bot's token.
const NoAnswer = "no answer of the API"

// Fault is why a call had no result. It never contains the token.
type Fault struct {
	What    string // the name of what was called; it contains no secret
	Status  int    // of HTTP, or the network's equivalent; 0: there was no answer
	Code    int    // the network's own number for the fault; 0: none
	Message string // the network's words, or ours
	// RetryAfter is how long the network asked us to wait; 0: it did not.
	RetryAfter time.Duration
	Whom       Whom // which requests the network asked to wait
	Sent       Sent
	Block      Block // what was in the way of the call, if known
	Detail     any   // further details of the network, in a type of its client
	Cause      error // the context's error if that ended the call, or the reason why the network was not reached
}

func (f *Fault) Error() string {
	switch {
	case f.Status == 0:
		return f.What + ": " + f.Message
	case f.Code == 0:
		return fmt.Sprintf("%s: HTTP %d %s", f.What, f.Status, f.Message)
	}
	return fmt.Sprintf("%s: HTTP %d, %d %s", f.What, f.Status, f.Code, f.Message)
}

// Unwrap returns the Cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Limited reports whether the network refused the call because the bot made too many.
func (f *Fault) Limited() bool { return f.Refused(http.StatusTooManyRequests) }

// Refused reports whether the network refused the call with that status.
func (f *Fault) Refused(status int) bool { return f.Sent == Refused && f.Status == status }

// FaultOf returns the Fault in err, or an empty one if there is none.
func FaultOf(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return new(Fault)
}

// Explain turns err into an error for a gateway. refused makes the error for a request that the network refused for
// good, with relay.Refused or relay.Gone. network is the network's name.
func Explain(err error, network string, refused func(*Fault) *relay.ActionError) *relay.ActionError {
	if done, ok := errors.AsType[*relay.ActionError](err); ok {
		return done
	}
	switch f := FaultOf(err); {
	case f.Limited():
		return relay.Penalty(f.RetryAfter, err)
	case f.Sent == Refused:
		out := refused(f)
		out.Err = err
		return out
	case f.Sent == Never && (f.RetryAfter > 0 || f.Cause != nil):
		return platforms.NotSent(f.RetryAfter, err)
	case f.Sent == Never:
		return relay.Later(network+" cannot be reached", err)
	case f.What == "":
		return relay.Unclear("the outcome is unknown", err)
	case f.Status >= 500:
		return relay.Unclear(network+" had an internal error, the outcome is unknown", err)
	default:
		return relay.Unclear(network+"'s answer did not come, the outcome is unknown", err)
	}
}
