// Package rest calls Slack's Web API, and the addresses that Slack names in its answers and payloads. slack-go provides
// the types of the answers.
//
// Invariants, besides those of package platforms/httpcall:
//
//  1. The parameters of a method are always sent as a form: methods that read accept nothing else, and those that write
//     accept a form, too.
//  2. Slack refuses with HTTP 200. A word that leaves open whether the call was carried out (unclear) is no refusal.
//  3. The token goes to the API alone, in a header.
//  4. No method is called more often than Slack says it may be, nor during a pause that Slack demands.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxAnswer bounds one answer of the API, in bytes: a thousand messages of history with their blocks.
const maxAnswer = 32 << 20

// transferTimeout bounds the upload of one file.
const transferTimeout = 5 * time.Minute

// Client calls the API with one token.
type Client struct {
	// Set once, by New.
	token relay.Secret
	base  string // with a slash at its end
	calls *httpcall.Client

	*gates
}

// New makes a client of the API at base, or of Slack's own if base is empty. rt, when not nil, carries all requests.
// Methods are called at most as often as r says.
func New(token relay.Secret, base string, rt http.RoundTripper, r PerMinute) *Client {
	return &Client{
		token: token, base: strings.TrimRight(cmp.Or(base, slack.APIURL), "/") + "/",
		calls: httpcall.New(token, rt, maxAnswer), gates: newGates(r),
	}
}

// CloseIdle closes the connections that no call uses. The client stays usable.
func (c *Client) CloseIdle() { c.calls.HTTP.CloseIdleConnections() }

// Call calls a method, and decodes its answer into out, unless out is nil. It waits for the method's rate as long as
// ctx's deadline allows. Every error is an *httpcall.Fault, whose Message is Slack's word for it.
func (c *Client) Call(ctx context.Context, method string, params url.Values, out any) error {
	if err := c.enter(ctx, method); err != nil {
		return err
	}
	_, err := c.call(ctx, method, params, out)
	c.heed(method, err)
	return err
}

// call is Call without the wait. With an error it returns as much of the answer as there is.
func (c *Client) call(ctx context.Context, method string, params url.Values, out any) (a httpcall.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+method, strings.NewReader(params.Encode()))
	if err != nil {
		return a, &httpcall.Fault{What: method, Sent: httpcall.Never, Message: "api_base makes no request"}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+c.token.RevealString())
	a, fault := c.calls.Do(req, method)
	if fault != nil {
		return a, fault
	}
	var said slack.SlackResponse
	if json.Unmarshal(a.Body, &said) != nil || !said.Ok && said.Error == "" {
		return a, noAnswer(method, a)
	}
	if !said.Ok {
		return a, c.refused(method, a, said)
	}
	if out == nil {
		return a, nil
	}
	if err := httpcall.Decode(a.Body, out); err != nil {
		return a, &httpcall.Fault{What: method, Status: a.Status, Message: "the answer makes no sense: " + err.Error()}
	}
	return a, nil
}

// Slack's words for errors that are more than a refusal of one call, by their meaning.
var (
	// waits: the same call may be carried out in a while.
	waits = []string{"ratelimited", "rate_limited", "service_unavailable", "team_added_to_org"}
	// unclear: "it's possible some aspect of the operation succeeded", Slack says.
	unclear = []string{"fatal_error", "internal_error"}
	// badCredentials: no call with the token will be carried out any more.
	badCredentials = []string{
		"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type", "org_login_required",
	}
)

// refused returns the Fault of a call that Slack answered with a word.
func (c *Client) refused(method string, a httpcall.Answer, said slack.SlackResponse, secrets ...string) *httpcall.Fault {
	f := &httpcall.Fault{What: method, Status: a.Status, Sent: httpcall.Refused, Message: c.calls.Scrub(said.Error, secrets...)}
	switch {
	case slices.Contains(waits, said.Error):
		f.Status = http.StatusTooManyRequests
		f.RetryAfter, _ = httpcall.Seconds(a.Header.Get("Retry-After"))
	case slices.Contains(unclear, said.Error) || a.Status >= 500:
		f.Sent, f.Status = httpcall.Maybe, max(a.Status, http.StatusInternalServerError)
	case said.Needed != "":
		f.Message += ": " + c.calls.Scrub(said.Needed)
	}
	return f
}

// noAnswer returns the Fault of a call whose answer is not in the form of Slack's API: a proxy answered, or Slack
// limits the calls.
func noAnswer(method string, a httpcall.Answer) *httpcall.Fault {
	f := &httpcall.Fault{What: method, Status: a.Status, Message: httpcall.NoAnswer, Sent: a.Sent}
	if a.Status >= 300 && a.Status < 500 {
		f.Sent = httpcall.Refused
	}
	if f.Limited() {
		f.RetryAfter, _ = httpcall.Seconds(a.Header.Get("Retry-After"))
	}
	return f
}

// RefusedWith reports whether Slack refused the call with one of the given words.
func RefusedWith(err error, words ...string) bool {
	f := httpcall.FaultOf(err)
	word, _, _ := strings.Cut(f.Message, ":")
	return f.Sent == httpcall.Refused && slices.Contains(words, word)
}

// BadCredentials reports whether Slack refused the token itself.
func BadCredentials(err error) bool { return RefusedWith(err, badCredentials...) }

// Respond posts body, as JSON, to an address from a payload. Whoever has the address may do so; no error contains it.
func (c *Client) Respond(ctx context.Context, address relay.Secret, body any) error {
	const what = "response_url"
	raw, err := json.Marshal(body)
	if err != nil {
		return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "the message has no JSON form"}
	}
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.RevealString(), bytes.NewReader(raw))
	if err != nil {
		return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "no address"}
	}
	req.Header.Set("Content-Type", "application/json")
	a, fault := c.calls.Do(req, what, address.RevealString())
	if fault != nil {
		return fault
	}
	said := slack.SlackResponse{Ok: true} // "ok" as plain text is the usual answer
	_ = json.Unmarshal(a.Body, &said)
	switch {
	case a.Status == http.StatusOK && said.Ok:
		return nil
	case said.Error != "":
		return c.refused(what, a, said, address.RevealString())
	}
	return noAnswer(what, a)
}

// Upload posts a file to an address that files.getUploadURLExternal gave. Nobody sees the file yet.
func (c *Client) Upload(ctx context.Context, address string, f httpcall.FormFile) error {
	const what = "upload"
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	f.Field = "filename"
	req, err := httpcall.Form{File: f}.Request(ctx, address)
	if err != nil {
		return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "no address"}
	}
	a, fault := c.calls.Do(req, what, address)
	if fault != nil {
		return fault
	}
	if a.Status != http.StatusOK {
		return noAnswer(what, a)
	}
	return nil
}
