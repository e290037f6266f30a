package wecom

import (
	"bytes"
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
	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxAnswer = 1 << 20
	// early is how long before its end an access token is renewed.
	early = 5 * time.Minute
)

// WeCom's numbers.
const (
	codeBadSecret    = 40001
	codeBadCorp      = 40013
	codeBadAccess    = 40014
	codeAccessGone   = 42001
	codeTooMany      = 45009
	codeAddress      = 60020
	codeNobodyThere  = 81013
	codeNoPermission = 60011
)

// client speaks WeCom's API. It is the only place that sees the application's secret and the access token.
type client struct {
	// Set once, by newClient.
	base   string
	corp   string
	agent  json.Number
	secret relay.Secret
	calls  *call.Client

	one chan struct{} // capacity 1: held by whom asks for an access token

	mu     sync.Mutex // guards the fields below
	token  string
	expire time.Time
}

func newClient(corp, agent string, o platforms.Options) *client {
	base := o.APIBase
	if base == "" {
		base = "https://qyapi.weixin.qq.com"
	}
	return &client{
		base: base, corp: corp, agent: json.Number(agent), secret: o.Token,
		calls: call.New(o.Token, o.Transport, maxAnswer), one: make(chan struct{}, 1),
	}
}

// cached is the access token, unless it is stale or about to end.
func (c *client) cached(stale string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.token != "" && c.token != stale && time.Now().Before(c.expire)
	return c.token, ok
}

// access is an access token, other than stale. All callers share one question: WeCom blocks who asks often.
func (c *client) access(ctx context.Context, stale string) (string, error) {
	if t, ok := c.cached(stale); ok {
		return t, nil
	}
	select {
	case c.one <- struct{}{}:
		defer func() { <-c.one }()
	case <-ctx.Done():
		return "", &call.Fault{What: "gettoken", Sent: call.Never, Message: "another question is under way", Cause: ctx.Err()}
	}
	if t, ok := c.cached(stale); ok { // somebody else asked meanwhile
		return t, nil
	}
	var out struct {
		Token  string `json:"access_token"`
		Expire int    `json:"expires_in"`
	}
	q := url.Values{"corpid": {c.corp}, "corpsecret": {c.secret.RevealString()}}
	if err := c.do(ctx, http.MethodGet, "gettoken", q, nil, &out); err != nil {
		// Asking for a token does nothing: whatever it was asked for did not happen.
		if f := call.FaultOf(err); f.Sent == call.Maybe {
			f.Sent = call.Never
		}
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.expire = out.Token, time.Now().Add(max(time.Duration(out.Expire)*time.Second-early, time.Minute))
	return c.token, nil
}

// send posts a text to a user. Its error is a *call.Fault.
func (c *client) send(ctx context.Context, user, text string) (relay.MessageID, error) {
	body := map[string]any{"touser": user, "msgtype": "text", "agentid": c.agent, "text": map[string]string{"content": text}}
	var out struct {
		ID      string `json:"msgid"`
		Invalid string `json:"invaliduser"`
	}
	for stale := ""; ; {
		token, err := c.access(ctx, stale)
		if err != nil {
			return "", err
		}
		err = c.do(ctx, http.MethodPost, "message/send", url.Values{"access_token": {token}}, body, &out)
		if f := call.FaultOf(err); stale == "" && isStale(f) {
			stale = token // once
			continue
		}
		if err == nil && out.Invalid != "" {
			err = &call.Fault{What: "message/send", Status: http.StatusOK, Code: codeNobodyThere, Sent: call.Refused, Message: "invaliduser"}
		}
		return relay.MessageID(out.ID), err
	}
}

// isStale reports whether WeCom refused an access token.
func isStale(f *call.Fault) bool {
	return f.Code == codeBadSecret || f.Code == codeBadAccess || f.Code == codeAccessGone
}

// do carries out one request. Its error is a *call.Fault.
func (c *client) do(ctx context.Context, method, path string, q url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return &call.Fault{What: path, Sent: call.Never, Message: "the message has no JSON form"}
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/cgi-bin/"+path+"?"+q.Encode(), content)
	if err != nil {
		return &call.Fault{What: path, Sent: call.Never, Message: "api_base makes no request"}
	}
	access := q.Get("access_token")
	a, fault := c.calls.Do(r, path, access, url.QueryEscape(access))
	if fault != nil {
		return fault
	}
	var said struct {
		Code    *int   `json:"errcode"`
		Message string `json:"errmsg"`
	}
	f := &call.Fault{What: path, Status: a.Status, Message: call.NoAnswer}
	if json.Unmarshal(a.Body, &said) != nil || said.Code == nil { // a proxy's page, half an answer
		if a.Status >= 300 && a.Status < 500 {
			f.Sent = call.Refused
		}
		return f
	}
	if *said.Code == 0 {
		if err := call.Decode(a.Body, out); err != nil {
			f.Message = "the answer makes no sense: " + err.Error()
			return f
		}
		return nil
	}
	f.Code, f.Sent, f.Message = *said.Code, call.Refused, c.calls.Scrub(said.Message, access)
	if f.Code == codeTooMany {
		f.Status = http.StatusTooManyRequests
	}
	return f
}

// addressIn is the address in WeCom's words, such as "not allow to access from your ip, … from ip: 192.0.2.1".
func addressIn(words string) string {
	for _, w := range strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' || r == '[' || r == ']' }) {
		if a, err := netip.ParseAddr(strings.TrimPrefix(w, "ip:")); err == nil {
			return a.String()
		}
	}
	return ""
}
