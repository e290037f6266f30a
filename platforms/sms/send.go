package sms

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown/plain"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxText is how long a message may be, in characters. Send counts a character of two UTF-16 units, such as an
	// emoji, as two, because Twilio may do so.
	maxText   = 1600
	maxAnswer = 1 << 20 // bytes of an answer of Twilio's
	// queueFull is the pause of a sender whose queue at Twilio, which holds hours of messages, is full. Twilio names no
	// time.
	queueFull = 10 * time.Minute
)

// Twilio's numbers for refusals that a gateway should read in other words.
const (
	codeUnauthorized = 20003
	codeTooMany      = 20429
	codeNoNumber     = 21211
	codeNoMobile     = 21614
	codeBadNumber    = 21217
	codeUnsubscribed = 21610
	codeQueueFull    = 21611
)

// Send implements platforms.Bot.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	parts, err := plain.Parts(a.Content, maxText, utf16.RuneLen)
	if err != nil {
		return relay.Result{}, relay.Refused(err.Error(), nil)
	}
	return p.turns.Post(ctx, a.Chat, &sender.Plain{Parts: parts, Part: func(ctx context.Context, t *sender.Turn, part string) (id relay.MessageID, err error) {
		err = t.Do(ctx, sender.Call{Do: func(ctx context.Context) (err error) {
			id, err = p.post(ctx, string(a.Chat), part)
			return err
		}})
		return id, err
	}})
}

// post sends one message. Its error is an *httpcall.Fault.
func (p *Bot) post(ctx context.Context, to, text string) (relay.MessageID, error) {
	form := url.Values{"To": {to}, "Body": {text}, "StatusCallback": {p.hook}}
	if strings.HasPrefix(p.from, "MG") {
		form.Set("MessagingServiceSid", p.from)
	} else {
		form.Set("From", p.from)
	}
	var sent struct {
		SID string `json:"sid"`
	}
	if err := p.do(ctx, http.MethodPost, "/Messages.json", form, &sent); err != nil {
		if httpcall.FaultOf(err).Refused(http.StatusUnauthorized) {
			p.status.Set(platforms.BadCredentials, badCredentials)
			p.watch.Doubt()
		}
		return "", err
	}
	return relay.MessageID(sent.SID), nil
}

// look asks Twilio for the account, which shows whether the credentials are accepted.
func (p *Bot) look(ctx context.Context) error {
	return p.do(ctx, http.MethodGet, ".json", nil, nil)
}

// do carries out one request about the account. Its error is an *httpcall.Fault.
func (p *Bot) do(ctx context.Context, method, path string, form url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	what := method + " Accounts" + path
	r, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "api_base makes no request"}
	}
	r.SetBasicAuth(p.account, p.token.RevealString())
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	_, basic, _ := strings.Cut(r.Header.Get("Authorization"), " ") // a spelling of the token
	a, fault := p.api.Do(r, what, basic)
	switch {
	case a.Status >= 300:
		return p.refused(what, a, basic)
	case fault != nil:
		return fault
	case out == nil:
		return nil
	}
	if err := httpcall.Decode(a.Body, out); err != nil {
		return &httpcall.Fault{What: what, Status: a.Status, Message: "the answer makes no sense: " + err.Error()}
	}
	return nil
}

// refused returns the error in an answer, without the secret.
func (p *Bot) refused(what string, a httpcall.Answer, secret string) *httpcall.Fault {
	var body struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	f := &httpcall.Fault{What: what, Status: a.Status, Message: httpcall.NoAnswer}
	if json.Unmarshal(a.Body, &body) == nil && body.Message != "" {
		f.Code, f.Message = body.Code, p.api.Scrub(body.Message, secret)
	}
	if a.Status < 500 {
		f.Sent = httpcall.Refused
	}
	switch f.Code {
	case codeTooMany:
		f.Status = http.StatusTooManyRequests
	case codeUnauthorized:
		f.Status = http.StatusUnauthorized
	case codeQueueFull: // the queue holds hours of messages: trying again within seconds cannot help
		f.Status = http.StatusBadRequest
	}
	if d, ok := httpcall.Seconds(a.Header.Get("Retry-After")); ok {
		f.RetryAfter = d
	}
	return f
}

// explained turns err into an error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "Twilio", func(f *httpcall.Fault) *relay.ActionError {
		switch f.Code {
		case codeNoNumber, codeNoMobile, codeBadNumber:
			return relay.Gone("", nil)
		case codeUnsubscribed:
			return relay.Gone("the recipient has unsubscribed", nil)
		case codeQueueFull:
			return relay.Penalty(queueFull, nil)
		}
		if f.Status == http.StatusUnauthorized {
			return relay.Refused("bad_credentials", nil)
		}
		return relay.Refused(f.Message, nil)
	})
}

// rates returns rates below those at which Twilio begins to queue. They keep a gateway that has run wild from filling
// the queue.
func rates() ratelimit.Rates {
	return ratelimit.Rates{
		Bot:  ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 20},
		Chat: ratelimit.Rate{Every: time.Second, Burst: 10},
	}
}

// noted returns the note of what happened to a message that we sent, if messages with that status are counted.
func (p *Bot) noted(status string, form url.Values) []platforms.HookNote {
	if !slices.Contains(platforms.HookNotes(), status) {
		return nil
	}
	n := platforms.HookNote{Status: status}
	if status == "undelivered" || status == "failed" {
		n.Chat, n.Message = relay.ChatID(form.Get("To")), relay.MessageID(form.Get("MessageSid"))
		n.Why = "Twilio's error " + digitsOf(form.Get("ErrorCode"))
		p.log.Warn("twilio could not deliver a message", "status", status, "code", digitsOf(form.Get("ErrorCode")))
	}
	return []platforms.HookNote{n}
}

// digitsOf returns s if it is a number of at most 8 digits, else "?", which keeps strangers' words out of the log.
func digitsOf(s string) string {
	if len(s) > 8 || strings.Trim(s, "0123456789") != "" {
		return "?"
	}
	return s
}
