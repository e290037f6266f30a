package signal

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxAnswer bounds an answer, in bytes: the longest is the list of everybody the account knows.
	maxAnswer = 32 << 20
	// leastPenalty is how long the account sends nothing after Signal limited it and the daemon does not say for how
	// long.
	leastPenalty = time.Minute
	// fileTimeout bounds the transfer of one file.
	fileTimeout = 5 * time.Minute
)

// daemon is signal-cli, for one account.
type daemon struct {
	base    string
	account string
	calls   *httpcall.Client
	streams *httpcall.Client // with connections of its own: a stream that hangs holds up no call
}

func newDaemon(base, account string, rt http.RoundTripper) *daemon {
	return &daemon{
		base: strings.TrimSuffix(base, "/"), account: account,
		calls: httpcall.New(relay.Secret{}, rt, maxAnswer), streams: httpcall.New(relay.Secret{}, rt, maxAnswer),
	}
}

func (d *daemon) host() string {
	u, err := url.Parse(d.base)
	if err != nil { // checked
		return d.base
	}
	return u.Host
}

// params are a method's parameters, beside the account.
type params map[string]any

// The codes of errors, of JSON-RPC and of signal-cli.
const (
	codeParams    = -32602 // among others: the daemon does not have the account
	codeInternal  = -32603
	codeUser      = -1
	codeIO        = -3
	codeUntrusted = -4
	codeLimited   = -5
)

// call calls one method and decodes its result into out, unless out is nil. Every error is an *httpcall.Fault, whose
// Detail is a reason.
func (d *daemon) call(ctx context.Context, method string, ps params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	r, err := d.request(ctx, method, d.body(method, ps))
	if err != nil {
		return err
	}
	return d.do(r, method, out)
}

// body returns the body of a request for a method.
func (d *daemon) body(method string, ps params) []byte {
	all := params{"account": d.account}
	maps.Copy(all, ps)
	raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": all}) // texts and numbers: cannot fail
	return raw
}

func (d *daemon) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/api/v1/rpc", bytes.NewReader(body))
	if err != nil {
		return nil, &httpcall.Fault{What: method, Sent: httpcall.Never, Message: "the address makes no request"}
	}
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

func (d *daemon) do(r *http.Request, method string, out any) error {
	a, fault := d.calls.Do(r, method)
	if fault != nil {
		return fault
	}
	return answered(a, method, out)
}

// rpcError is why a call had no result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Response struct {
			Results []sendResult `json:"results"`
		} `json:"response"`
	} `json:"data"`
}

// sendResult is the result of sending a message to one person.
type sendResult struct {
	Type       string `json:"type"`
	Token      string `json:"token"`
	RetryAfter int64  `json:"retryAfterSeconds"`
}

// answered decodes the result in the answer to a call into out, or returns the error in it.
func answered(a httpcall.Answer, method string, out any) error {
	f := &httpcall.Fault{What: method, Status: a.Status, Sent: a.Sent, Message: httpcall.NoAnswer}
	if a.Status != http.StatusOK && a.Status != http.StatusCreated { // with 201 the call has no result
		if a.Status < 500 {
			f.Sent = httpcall.Refused
		}
		if a.Status == http.StatusMisdirectedRequest {
			f.Message = "signal-cli answers to another name: give `daemon` the one that stands behind its --http"
		}
		return f
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	if a.Status == http.StatusOK {
		if err := httpcall.Decode(a.Body, &answer); err != nil {
			return f
		}
	}
	if answer.Error != nil {
		return refused(f, answer.Error)
	}
	if out == nil {
		return nil
	}
	if err := httpcall.Decode(answer.Result, out); err != nil {
		f.Message = "the answer makes no sense: " + err.Error()
		return f
	}
	return nil
}

// reason is why the daemon or Signal refused something, if a gateway or an operator should know.
type reason int

const (
	_          reason = iota
	noAccount         // the daemon does not have our account
	nobody            // the person or the group is not there
	untrusted         // the person's keys are new
	adminsOnly        // others may not write in the group
	wantsProof        // Signal wants a captcha to be solved
)

// refused puts the daemon's error into f.
func refused(f *httpcall.Fault, e *rpcError) *httpcall.Fault {
	f.Code = e.Code
	f.Message, _, _ = strings.Cut(e.Message, ":") // names of groups may follow, which logs must not contain
	if results := e.Data.Response.Results; len(results) > 0 {
		if judged(f, results) == nil { // the daemon reports an error, but somebody has got the message
			f.Sent = httpcall.Maybe
		}
		return f
	}
	switch {
	case e.Code == codeLimited:
		limited(f, 0)
	case e.Code == codeIO, e.Code == codeInternal, e.Code == codeUser && strings.HasPrefix(e.Message, "Failed to send"):
		// f.Sent stays: whether it was sent is unknown.
	default:
		f.Sent, f.Status = httpcall.Refused, http.StatusBadRequest
	}
	switch {
	case e.Code == codeParams && strings.Contains(e.Message, "account"):
		f.Detail = noAccount
	case e.Code == codeUntrusted:
		f.Detail = untrusted
	case e.Code == codeUser && strings.Contains(e.Message, "not allowed to send message to group"):
		f.Detail = adminsOnly
	case e.Code == codeUser && (strings.Contains(e.Message, "roup") || strings.Contains(e.Message, "not registered")):
		f.Detail = nobody
	}
	return f
}

// limited makes f the refusal of a call by Signal's limits, with a wait of so many seconds; 0: leastPenalty.
func limited(f *httpcall.Fault, seconds int64) {
	f.Sent, f.Status, f.Whom, f.RetryAfter = httpcall.Refused, http.StatusTooManyRequests, httpcall.Bot, leastPenalty
	if d, ok := httpcall.Seconds(strconv.FormatInt(seconds, 10)); ok && d > 0 {
		f.RetryAfter = d
	}
}

// judged fills f with the reason why a message went to nobody, and returns f; it returns nil if the message went to
// somebody.
func judged(f *httpcall.Fault, results []sendResult) error {
	is := func(kind string) bool {
		return slices.ContainsFunc(results, func(r sendResult) bool { return r.Type == kind })
	}
	f.Status = http.StatusBadRequest
	switch {
	case len(results) == 0 || is("SUCCESS"):
		return nil
	case is("NETWORK_FAILURE"): // between the daemon and Signal, so the outcome is unknown
		f.Message, f.Sent, f.Status = "the daemon lost Signal while it sent", httpcall.Maybe, http.StatusBadGateway
		return f
	case is("RATE_LIMIT_FAILURE"):
		var wait int64
		for _, r := range results {
			if wait = max(wait, r.RetryAfter); r.Token != "" {
				f.Detail = wantsProof
			}
		}
		f.Message = "rate limited by Signal"
		limited(f, wait)
		return f
	case is("IDENTITY_FAILURE"):
		f.Message, f.Detail = "untrusted identity", untrusted
	case is("UNREGISTERED_FAILURE"):
		f.Message, f.Detail = "not registered", nobody
	default:
		f.Message = "not delivered: " + results[0].Type
	}
	f.Sent = httpcall.Refused
	return f
}

// explained turns err into the error that a gateway may read. It leaves out the daemon's own words, which may name
// people.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "signal-cli", func(f *httpcall.Fault) *relay.ActionError {
		switch f.Detail {
		case nobody:
			return relay.Gone("", nil)
		case untrusted:
			return relay.Refused("the recipient's safety number has changed: the operator has to trust it (signal-cli trust)", nil)
		case adminsOnly:
			return relay.Refused("forbidden: only admins may write in the group", nil)
		case noAccount:
			return relay.Refused("signal-cli does not have the bot's account", nil)
		}
		return relay.Refused("signal-cli refuses it", nil)
	})
}
