package matrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxAnswer bounds one answer, in bytes: a first sync of many hundred rooms.
	maxAnswer = 64 << 20
	// transferTimeout bounds the upload or download of one file.
	transferTimeout = 5 * time.Minute
)

// The codes of the homeserver's refusals that are distinguished here (client-server API, common error codes).
const (
	errUnknownToken = "M_UNKNOWN_TOKEN"
	errMissingToken = "M_MISSING_TOKEN"
	errDeactivated  = "M_USER_DEACTIVATED"
	errForbidden    = "M_FORBIDDEN"
	errNotFound     = "M_NOT_FOUND"
	errUnrecognized = "M_UNRECOGNIZED"
	errDuplicate    = "M_DUPLICATE_ANNOTATION"
)

// client speaks the client-server API of one homeserver. Only it sees the token. Syncs have connections of their own.
type client struct {
	// Set once, by newClient.
	token relay.Secret
	home  string // an address, or the name of a server whose .well-known has the address
	syncs *httpcall.Client
	calls *httpcall.Client

	nameless bool // requests carry no token: login has none yet

	found atomic.Pointer[string] // the address, once it is known
}

// newClient makes a client for the homeserver at home. rt, when not nil, carries all requests.
func newClient(token relay.Secret, home string, rt http.RoundTripper) *client {
	c := &client{token: token, home: home, syncs: httpcall.New(token, rt, maxAnswer), calls: httpcall.New(token, rt, maxAnswer)}
	if strings.Contains(home, "://") {
		address := strings.TrimRight(home, "/")
		c.found.Store(&address)
	}
	return c
}

// closeIdle closes the connections that no call uses. The client stays usable.
func (c *client) closeIdle() {
	c.syncs.HTTP.CloseIdleConnections()
	c.calls.HTTP.CloseIdleConnections()
}

// forget makes the next request look up the address of the server's name again: it may have moved.
func (c *client) forget() {
	if !strings.Contains(c.home, "://") {
		c.found.Store(nil)
	}
}

// address returns the homeserver's address. For the name of a server it reads the address, which must be https, from
// the server's .well-known. A server without that file is the homeserver itself (client-server API, server discovery).
func (c *client) address(ctx context.Context) (string, error) {
	if at := c.found.Load(); at != nil {
		return *at, nil
	}
	const what = ".well-known"
	at := "https://" + c.home
	a, fault := c.wellKnown(ctx, what, at+"/.well-known/matrix/client")
	if fault != nil {
		fault.Sent = httpcall.Never // the request itself was not sent
		return "", fault
	}
	switch {
	case a.Status == http.StatusNotFound:
	case a.Status != http.StatusOK:
		return "", &httpcall.Fault{What: what, Status: a.Status, Sent: httpcall.Never, Message: "it does not say where the homeserver is"}
	default:
		var said struct {
			Home struct {
				Base string `json:"base_url"`
			} `json:"m.homeserver"`
		}
		err := json.Unmarshal(a.Body, &said)
		if u, bad := url.Parse(said.Home.Base); err != nil || bad != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
			return "", &httpcall.Fault{What: what, Status: a.Status, Sent: httpcall.Never, Message: "it names no homeserver over https"}
		}
		at = strings.TrimRight(said.Home.Base, "/")
	}
	c.found.Store(&at)
	return at, nil
}

// wellKnown fetches an address, and follows redirects, without the token. Every address on the way must be https.
func (c *client) wellKnown(ctx context.Context, what, address string) (a httpcall.Answer, fault *httpcall.Fault) {
	for range 5 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil || req.URL.Scheme != "https" || req.URL.User != nil {
			return a, &httpcall.Fault{What: what, Message: "its address, or one that it leads to, is none over https"}
		}
		if a, fault = c.calls.Do(req, what); fault != nil {
			return a, fault
		}
		to, err := req.URL.Parse(a.Header.Get("Location"))
		if a.Status < 300 || a.Status > 399 || a.Header.Get("Location") == "" || err != nil {
			return a, nil
		}
		address = to.String()
	}
	return a, nil
}

// request is one call of the API.
type request struct {
	what   string // the name of the call in a Fault; it holds no secret
	method string
	path   []string // behind /_matrix, not escaped
	query  url.Values
	in     any // the body, as JSON; nil: none
	out    any // receives the result; nil: it is ignored
	within time.Duration
}

// v3 returns a path of the API's third version.
func v3(path ...string) []string { return append([]string{"client", "v3"}, path...) }

// inRoom returns the path of something of a room.
func inRoom(room relay.ChatID, path ...string) []string {
	return append(v3("rooms", string(room)), path...)
}

// call carries out one request within its time, or httpcall.Timeout. Every error is an *httpcall.Fault.
func (c *client) call(ctx context.Context, r request) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.within, httpcall.Timeout))
	defer cancel()
	return c.do(ctx, c.calls, r)
}

// get calls the API for a question, which changes nothing there.
func (c *client) get(ctx context.Context, what string, path []string, query url.Values, out any) error {
	return c.call(ctx, request{what: what, method: http.MethodGet, path: path, query: query, out: out})
}

// do carries out one request over via. Its error is an *httpcall.Fault.
func (c *client) do(ctx context.Context, via *httpcall.Client, r request) error {
	var body io.Reader
	if r.in != nil {
		raw, err := json.Marshal(r.in)
		if err != nil {
			return &httpcall.Fault{What: r.what, Sent: httpcall.Never, Message: "the request makes no sense"}
		}
		body = bytes.NewReader(raw) // can be read again, so a request that an idle connection lost is sent once more
	}
	req, err := c.request(ctx, r.what, r.method, r.path, r.query, body)
	if err != nil {
		return err
	}
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, fault := via.Do(req, r.what)
	if fault != nil {
		return fault
	}
	if a.Status >= 300 || a.Status < 200 {
		return refusal(via, r.what, a)
	}
	if r.out == nil {
		return nil
	}
	if err := httpcall.Decode(a.Body, r.out); err != nil {
		return &httpcall.Fault{What: r.what, Status: a.Status, Message: "the answer makes no sense: " + err.Error()}
	}
	return nil
}

// request makes the request for a path below /_matrix. body may be nil.
func (c *client) request(ctx context.Context, what, method string, path []string, query url.Values, body io.Reader) (*http.Request, error) {
	at, err := c.address(ctx)
	if err != nil {
		return nil, err
	}
	address := at + "/_matrix"
	for _, part := range path {
		address += "/" + url.PathEscape(part)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "the address makes no sense"}
	}
	if !c.nameless {
		req.Header.Set("Authorization", "Bearer "+c.token.RevealString())
	}
	return req, nil
}

// said is a homeserver's explanation of a refusal.
type said struct {
	Code       string      `json:"errcode"`
	Words      string      `json:"error"`
	RetryAfter json.Number `json:"retry_after_ms"`
	SoftLogout bool        `json:"soft_logout"`
}

// refusal returns the Fault for an answer that is no success. Its Detail is the homeserver's code.
func refusal(via *httpcall.Client, what string, a httpcall.Answer) *httpcall.Fault {
	f := &httpcall.Fault{What: what, Status: a.Status, Message: httpcall.NoAnswer, Sent: a.Sent}
	var s said
	if json.Unmarshal(a.Body, &s) != nil || s.Code == "" { // a proxy's page
		if a.Status == http.StatusRequestEntityTooLarge {
			f.Message, f.Sent = http.StatusText(a.Status), httpcall.Refused
		}
		return f
	}
	f.Message, f.Detail = via.Scrub(strings.TrimSpace(s.Code+" "+s.Words)), s.Code
	if s.SoftLogout {
		f.Message += "; the token has expired"
	}
	if a.Status < 500 {
		f.Sent = httpcall.Refused
	}
	if f.Limited() {
		f.Whom = httpcall.Bot // a homeserver counts a user's requests, in all rooms together
		if ms, err := s.RetryAfter.Float64(); err == nil && ms > 0 {
			f.RetryAfter = time.Duration(min(ms, 24*3600*1000)) * time.Millisecond
		} else if d, ok := httpcall.Seconds(a.Header.Get("Retry-After")); ok {
			f.RetryAfter = d
		}
	}
	return f
}

// refusedAs reports whether the homeserver refused a call with one of those codes.
func refusedAs(err error, codes ...string) bool {
	f := httpcall.FaultOf(err)
	code, _ := f.Detail.(string)
	return f.Sent == httpcall.Refused && slices.Contains(codes, code)
}

// refusedToken reports whether the homeserver knows no user of this token.
func refusedToken(err error) bool {
	return refusedAs(err, errUnknownToken, errMissingToken, errDeactivated)
}

// refusedForGood reports whether the homeserver would refuse the same question again: the room or the event does not
// exist, or the bot may not know about it.
func refusedForGood(err error) bool {
	return refusedAs(err, errForbidden, errNotFound)
}

// Errors of requests that are refused without asking the homeserver.
var (
	errEmpty          = relay.Refused("message is empty", nil)
	errTooLong        = relay.Refused("message is too long", nil)
	errUnknownRoom    = relay.Refused("room not found: the ids of Matrix's rooms begin with \"!\"", nil)
	errUnknownMessage = relay.Refused("message not found: the ids of Matrix's events begin with \"$\"", nil)
	errEncrypted      = relay.Refused("the room is encrypted, and nothing is written there in the clear", nil)
)

// explained turns err into the error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "the homeserver", func(f *httpcall.Fault) *relay.ActionError {
		words := cmp.Or(f.Message, "refused")
		if refusedAs(err, errForbidden) {
			return relay.Gone(words, nil)
		}
		return relay.Refused(words, nil)
	})
}

// login asks the homeserver for a token of a new device, with the account's password.
func login(ctx context.Context, o platforms.Options, password relay.Secret) (token relay.Secret, err error) {
	opts, err := o.Settings(keys)
	if err != nil {
		return token, err
	}
	user := opts[keyUser]
	c := newClient(password, cmp.Or(o.APIBase, opts[keyHomeserver]), o.Transport) // no Fault shows the password
	c.nameless = true
	defer c.closeIdle()
	type identifier struct {
		Type string `json:"type"`
		User string `json:"user"`
	}
	var out struct {
		Token string `json:"access_token"`
		User  string `json:"user_id"`
	}
	err = c.call(ctx, request{what: "login", method: http.MethodPost, path: v3("login"), out: &out, in: struct {
		Type     string     `json:"type"`
		Who      identifier `json:"identifier"`
		Password string     `json:"password"`
		Device   string     `json:"initial_device_display_name"`
	}{"m.login.password", identifier{"m.id.user", user}, password.RevealString(), "hermes-connector"}})
	switch {
	case refusedAs(err, errForbidden):
		return token, errors.New("the homeserver does not know the account " + user + " with this password")
	case err != nil:
		return token, err
	case out.User != user:
		return token, fmt.Errorf("the homeserver says that this is %s, and not %s", relay.Shown(out.User), user)
	}
	token = relay.NewSecret([]byte(out.Token))
	return token, checkToken(token)
}
