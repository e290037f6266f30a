package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// publicAPI is Telegram's own Bot API.
const publicAPI = "https://api.telegram.org"

// maxAnswer bounds one answer of the API, in bytes: far more than a hundred of the largest updates.
const maxAnswer = 64 << 20

// batchSize is the most updates one answer may carry; the API's own limit.
const batchSize = 100

// Methods that post a file, each with the parameter that is the file.
const (
	sendPhoto     = "sendPhoto"
	sendAnimation = "sendAnimation"
	sendVideo     = "sendVideo"
	sendVoice     = "sendVoice"
	sendAudio     = "sendAudio"
	sendDocument  = "sendDocument"
)

var fileParam = map[string]string{
	sendPhoto: "photo", sendAnimation: "animation", sendVideo: "video",
	sendVoice: "voice", sendAudio: "audio", sendDocument: "document",
}

// transferTimeout bounds the upload or download of one file.
const transferTimeout = 5 * time.Minute

// client speaks the Bot API, and alone sees the token. Polls have connections of their own, so that a poll
// that hangs holds up no message.
type client struct {
	// Set once, by newClient.
	token  relay.Secret
	base   string // of the API
	public bool   // it is Telegram's own API
	polls  *httpcall.Client
	calls  *httpcall.Client
}

// newClient makes a client for the API at base, or for Telegram's own. rt, if it is not nil, carries all requests.
func newClient(token relay.Secret, base string, rt http.RoundTripper) *client {
	base = cmp.Or(base, publicAPI)
	at, err := url.Parse(base)
	return &client{
		token: token, base: strings.TrimRight(base, "/"), public: err == nil && at.Hostname() == "api.telegram.org",
		polls: httpcall.New(token, rt, maxAnswer), calls: httpcall.New(token, rt, maxAnswer),
	}
}

// address returns the address of a method. It is a credential.
func (c *client) address(method string) string {
	return c.base + "/bot" + c.token.RevealString() + "/" + method
}

// fileAddress returns the address of the file at a path. It is a credential, too.
func (c *client) fileAddress(path string) string {
	return c.base + "/file/bot" + c.token.RevealString() + "/" + (&url.URL{Path: path}).EscapedPath()
}

// closeIdle drops connections nobody uses. The client stays usable.
func (c *client) closeIdle() {
	c.polls.HTTP.CloseIdleConnections()
	c.calls.HTTP.CloseIdleConnections()
}

// call calls one method and decodes its result into out, unless out is nil, within httpcall.Timeout. Every error is an
// *httpcall.Fault, whose Detail is the chat's new id if it has moved.
func (c *client) call(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	return c.do(ctx, c.calls, method, params, out)
}

// poll is call for a method that answers late: only the caller's context bounds it.
func (c *client) poll(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	return c.do(ctx, c.polls, method, params, out)
}

func (c *client) do(ctx context.Context, via *httpcall.Client, method string, params tgbotapi.Params, out any) error {
	secret := params["secret_token"] // of a web hook
	form := make(url.Values, len(params))
	for key, value := range params {
		form.Set(key, value)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address(method), strings.NewReader(form.Encode()))
	if err != nil {
		return &httpcall.Fault{What: method, Sent: httpcall.Never, Message: via.Scrub(err.Error())}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return answered(via, req, method, secret, out)
}

// upload calls one method with a file, within transferTimeout rather than httpcall.Timeout: how long a file takes
// depends on the line.
func (c *client) upload(ctx context.Context, method string, params tgbotapi.Params, f relay.File, out any) error {
	form := httpcall.Form{File: httpcall.FormFile{
		Field: fileParam[method], Name: cmp.Or(f.Name, "file"+f.Ext), Type: f.Mime, Content: f.Content, Size: f.Size,
	}}
	for _, key := range slices.Sorted(maps.Keys(params)) {
		form.Fields = append(form.Fields, httpcall.Field{Name: key, Value: params[key]})
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	req, err := form.Request(ctx, c.address(method))
	if err != nil {
		return &httpcall.Fault{What: method, Sent: httpcall.Never, Message: c.calls.Scrub(err.Error())}
	}
	return answered(c.calls, req, method, "", out)
}

// answered carries out req and decodes the result into out, unless out is nil. secret, besides the token, is kept out
// of errors.
func answered(via *httpcall.Client, req *http.Request, method, secret string, out any) error {
	a, fault := via.Do(req, method, secret)
	if fault != nil {
		return fault
	}
	fault = &httpcall.Fault{What: method, Status: a.Status, Message: httpcall.NoAnswer, Sent: a.Sent}
	var resp tgbotapi.APIResponse
	switch err := json.Unmarshal(a.Body, &resp); {
	case err != nil && a.Status == http.StatusRequestEntityTooLarge: // a proxy's page, whatever is on it
		fault.Message, fault.Sent = http.StatusText(a.Status), httpcall.Refused
	case err != nil: // a proxy's page, half an answer
	case resp.Ok && out == nil:
		return nil
	case resp.Ok:
		if err = httpcall.Decode(resp.Result, out); err == nil {
			return nil
		}
		fault.Message = "the result makes no sense: " + err.Error()
	case resp.ErrorCode != 0 || resp.Description != "":
		fault.Message, fault.Status = via.Scrub(resp.Description, secret), cmp.Or(resp.ErrorCode, a.Status)
		more := cmp.Or(resp.Parameters, new(tgbotapi.ResponseParameters))
		fault.RetryAfter = time.Duration(more.RetryAfter) * time.Second
		if fault.Status >= 300 && fault.Status < 500 {
			fault.Sent = httpcall.Refused
			if more.MigrateToChatID != 0 {
				fault.Detail = more.MigrateToChatID
			}
		}
	}
	return fault
}
