package wecom

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxAnswer = 1 << 20 // bytes of an answer of WeCom's
	// early is how long before its end an access token is renewed.
	early = 5 * time.Minute
	// WeCom blocks clients that ask for access tokens often. So after a failure all callers get its error for
	// afterFailure. A token that replaces a refused one is not renewed for afterRenewal, even if it is refused, too.
	afterFailure = 5 * time.Second
	afterRenewal = time.Minute
)

// WeCom's error codes.
const (
	codeBadSecret   = 40001
	codeBadCorp     = 40013
	codeBadAccess   = 40014
	codeAccessGone  = 42001
	codeTooMany     = 45009
	codeAddress     = 60020
	codeNobodyThere = 81013
)

// client speaks WeCom's API. It is the only place that sees the application's secret and the access token.
type client struct {
	// Set once, by newClient.
	base   string
	corp   string
	agent  json.Number
	secret relay.Secret
	calls  *httpcall.Client

	one chan struct{} // capacity 1: full while a caller asks WeCom for an access token

	mu     sync.Mutex // guards the fields below
	token  string     // the access token; empty: there is none
	expire time.Time  // when it is renewed
	why    error      // why there is no token
	again  time.Time  // no request for a token before this time
}

func newClient(corp, agent string, o platforms.Options) *client {
	return &client{
		base: cmp.Or(o.APIBase, "https://qyapi.weixin.qq.com"), corp: corp, agent: json.Number(agent), secret: o.Token,
		calls: httpcall.New(o.Token, o.Transport, maxAnswer), one: make(chan struct{}, 1),
	}
}

// cached returns the access token, or the error that explains why there is none other than stale; ok is false if WeCom
// has to be asked for one.
func (c *client) cached(stale string) (token string, err error, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.token != "" && c.token != stale && now.Before(c.expire):
		return c.token, nil, true
	case !now.Before(c.again):
		return "", nil, false
	case c.why != nil:
		return "", c.why, true
	}
	return "", &httpcall.Fault{
		What: "gettoken", Status: http.StatusOK, Code: codeAccessGone, Sent: httpcall.Refused, Message: "the access token was renewed a moment ago",
	}, true
}

// access returns an access token, other than stale. One request serves all callers that wait; the next of them sends it
// again only if the ctx of the one that sent it has ended.
func (c *client) access(ctx context.Context, stale string) (string, error) {
	if token, err, ok := c.cached(stale); ok {
		return token, err
	}
	select {
	case c.one <- struct{}{}:
		defer func() { <-c.one }()
	case <-ctx.Done():
		return "", &httpcall.Fault{What: "gettoken", Sent: httpcall.Never, Message: "another question is under way", Cause: ctx.Err()}
	}
	if token, err, ok := c.cached(stale); ok {
		return token, err
	}
	var out struct {
		Token  string `json:"access_token"`
		Expire int    `json:"expires_in"`
	}
	err := c.do(ctx, http.MethodGet, "gettoken", url.Values{"corpid": {c.corp}, "corpsecret": {c.secret.RevealString()}}, nil, &out)
	if err == nil && out.Token == "" {
		err = &httpcall.Fault{What: "gettoken", Status: http.StatusOK, Message: "an answer without an access token"}
	}
	if f := httpcall.FaultOf(err); err != nil && f.Sent == httpcall.Maybe {
		f.Sent = httpcall.Never // the call for which the token was needed has not happened
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.token, c.why, c.again = out.Token, err, time.Time{}
	switch {
	case ctx.Err() != nil: // the next caller asks
	case err != nil:
		c.again = now.Add(afterFailure)
	case stale != "":
		c.again = now.Add(afterRenewal)
	}
	c.expire = now.Add(max(time.Duration(out.Expire)*time.Second-early, afterRenewal))
	return c.token, err
}

// send posts a text to a user. Its error is an *httpcall.Fault.
func (c *client) send(ctx context.Context, user, text string) (relay.MessageID, error) {
	body := map[string]any{"touser": user, "msgtype": "text", "agentid": c.agent, "text": map[string]string{"content": text}}
	var out struct {
		ID         string `json:"msgid"`
		Invalid    string `json:"invaliduser"`
		Unlicensed string `json:"unlicenseduser"`
	}
	for stale := ""; ; {
		token, err := c.access(ctx, stale)
		if err != nil {
			return "", err
		}
		err = c.do(ctx, http.MethodPost, "message/send", url.Values{"access_token": {token}}, body, &out)
		if f := httpcall.FaultOf(err); stale == "" && isStale(f) {
			stale = token // so the access token is renewed only once
			continue
		}
		refused := &httpcall.Fault{What: "message/send", Status: http.StatusOK, Sent: httpcall.Refused}
		switch { // in these cases, too, WeCom answers with code 0
		case err != nil:
			return "", err
		case out.Invalid != "":
			refused.Code, refused.Message = codeNobodyThere, "invaliduser"
			return "", refused
		case out.Unlicensed != "":
			refused.Message = "forbidden: the user has no licence for the application"
			return "", refused
		}
		return relay.MessageID(out.ID), nil
	}
}

// isStale reports whether WeCom refused an access token.
func isStale(f *httpcall.Fault) bool {
	return f.Code == codeBadSecret || f.Code == codeBadAccess || f.Code == codeAccessGone
}

// do carries out one request. Its error is an *httpcall.Fault.
func (c *client) do(ctx context.Context, method, path string, q url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return &httpcall.Fault{What: path, Sent: httpcall.Never, Message: "the message has no JSON form"}
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/cgi-bin/"+path+"?"+q.Encode(), content)
	if err != nil {
		return &httpcall.Fault{What: path, Sent: httpcall.Never, Message: "api_base makes no request"}
	}
	access := q.Get("access_token")
	secrets := []string{access, url.QueryEscape(access)}
	a, fault := c.calls.Do(r, path, secrets...)
	if fault != nil {
		return fault
	}
	var said struct {
		Code    *int   `json:"errcode"`
		Message string `json:"errmsg"`
	}
	f := &httpcall.Fault{What: path, Status: a.Status, Message: httpcall.NoAnswer}
	if json.Unmarshal(a.Body, &said) != nil || said.Code == nil { // a proxy's page, half an answer
		if a.Status >= 300 && a.Status < 500 {
			f.Sent = httpcall.Refused
		}
		return f
	}
	if *said.Code == 0 {
		if err := httpcall.Decode(a.Body, out); err != nil {
			f.Message = "the answer makes no sense: " + err.Error()
			return f
		}
		return nil
	}
	f.Code, f.Sent, f.Message = *said.Code, httpcall.Refused, c.calls.Scrub(said.Message, secrets...)
	if f.Code == codeTooMany {
		f.Status = http.StatusTooManyRequests
	}
	return f
}

// addressIn returns the IP address in WeCom's words, such as "not allow to access from your ip, … from ip: 192.0.2.1".
func addressIn(words string) string {
	for _, w := range strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' || r == '[' || r == ']' }) {
		if a, err := netip.ParseAddr(strings.TrimPrefix(w, "ip:")); err == nil {
			return a.String()
		}
	}
	return ""
}
