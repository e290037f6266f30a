package telegram

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxAnswer bounds one answer of the API, in bytes: far more than a hundred of the largest updates.
const maxAnswer = 64 << 20

// client speaks the Bot API, and alone sees the token. Polls have connections of their own, so that a poll
// that hangs holds up no message.
type client struct {
	// Set once, by newClient.
	token    relay.Secret
	endpoint string // format with two verbs: token and method
	polls    *call.Client
	calls    *call.Client
}

// newClient makes a client for the API at base, or for Telegram's own. rt, when not nil, carries everything.
func newClient(token relay.Secret, base string, rt http.RoundTripper) *client {
	endpoint := tgbotapi.APIEndpoint
	if base != "" {
		endpoint = strings.ReplaceAll(strings.TrimRight(base, "/"), "%", "%%") + "/bot%s/%s"
	}
	return &client{
		token: token, endpoint: endpoint,
		polls: call.New(token, rt, maxAnswer), calls: call.New(token, rt, maxAnswer),
	}
}

// closeIdle drops connections nobody uses. The client stays usable.
func (c *client) closeIdle() {
	c.polls.HTTP.CloseIdleConnections()
	c.calls.HTTP.CloseIdleConnections()
}

// call carries out one method and decodes its result into out, unless out is nil, within call.Timeout. Every
// error is a *call.Fault, whose Detail is the chat's new id if it has moved.
func (c *client) call(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	return c.do(ctx, c.calls, method, params, out)
}

// poll is call for a method that answers late: the caller's context bounds it.
func (c *client) poll(ctx context.Context, method string, params tgbotapi.Params, out any) error {
	return c.do(ctx, c.polls, method, params, out)
}

func (c *client) do(ctx context.Context, via *call.Client, method string, params tgbotapi.Params, out any) error {
	var status int // of HTTP
	// Made per call: the context is the call's, and no plain token rests where it could be printed.
	bot := tgbotapi.BotAPI{Token: c.token.RevealString(), Client: carrier(func(r *http.Request) (*http.Response, error) {
		a, fault := via.Do(r.WithContext(ctx), method)
		if fault != nil {
			return nil, fault
		}
		status = a.Status
		return &http.Response{StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body))}, nil
	})}
	bot.SetAPIEndpoint(c.endpoint)
	resp, err := bot.MakeRequest(method, params)
	fault := &call.Fault{What: method, Status: status}
	var refused *tgbotapi.Error
	switch {
	case err == nil:
		if out == nil {
			return nil
		}
		if err = call.Decode(resp.Result, out); err == nil {
			return nil
		}
		fault.Message = "the result makes no sense: " + err.Error()
	case errors.As(err, &fault):
	case errors.As(err, &refused) && (refused.Code != 0 || refused.Message != ""):
		fault.Message = via.Scrub(refused.Message)
		fault.RetryAfter = time.Duration(refused.RetryAfter) * time.Second
		fault.Status = cmp.Or(refused.Code, status)
		if fault.Status >= 300 && fault.Status < 500 {
			fault.Sent = call.Refused
			if refused.MigrateToChatID != 0 {
				fault.Detail = refused.MigrateToChatID
			}
		}
	case status == 0: // no request could be made of it
		fault.Sent, fault.Message = call.Never, via.Scrub(err.Error())
	default: // an answer, but not one of the API: a proxy's page, half an answer
		fault.Message = call.NoAnswer
	}
	return fault
}

// carrier implements tgbotapi.HTTPClient. The library knows no contexts, so each call gets its own.
type carrier func(*http.Request) (*http.Response, error)

func (f carrier) Do(r *http.Request) (*http.Response, error) { return f(r) }
