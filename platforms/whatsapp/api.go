package whatsapp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1 << 20

// obj is an object of JSON.
type obj map[string]any

// get reads the document at path into out.
func (p *Bot) get(ctx context.Context, path string, out any) error {
	return p.call(ctx, http.MethodGet, path, nil, out)
}

// post posts body, which must not be nil, to path.
func (p *Bot) post(ctx context.Context, path string, body obj, out any) error {
	return p.call(ctx, http.MethodPost, path, body, out)
}

// call carries out one request and decodes its answer into out, unless out is nil. Its error is an *httpcall.Fault.
func (p *Bot) call(ctx context.Context, method, path string, body obj, out any) error {
	ctx, cancel := context.WithTimeout(ctx, httpcall.Timeout)
	defer cancel()
	what := method + " " + path
	var raw []byte
	if body != nil {
		raw, _ = json.Marshal(body) // texts and numbers: cannot fail
	}
	r, err := http.NewRequestWithContext(ctx, method, p.base+"/"+path, bytes.NewReader(raw))
	if err != nil {
		return &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "api_base makes no request"}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return p.do(r, what, out)
}

// do carries out r, with the token. If the API refuses the token, do sets the bot's status, and has the token checked
// again at once.
func (p *Bot) do(r *http.Request, what string, out any) error {
	r.Header.Set("Authorization", "Bearer "+p.token.RevealString())
	a, fault := p.api.Do(r, what)
	if fault != nil {
		return fault
	}
	if a.Status >= 300 {
		f := p.refused(what, a)
		if f.Refused(http.StatusUnauthorized) {
			p.status.Set(platforms.BadCredentials, badCredentials)
			p.watch.Doubt()
		}
		return f
	}
	if out == nil {
		return nil
	}
	if err := httpcall.Decode(a.Body, out); err != nil {
		return &httpcall.Fault{What: what, Status: a.Status, Sent: a.Sent, Message: "the answer makes no sense: " + err.Error()}
	}
	return nil
}

// apiError is an error as Meta reports it, in answers and in calls of the hook.
type apiError struct {
	Code    int    `json:"code"`
	Subcode int    `json:"error_subcode"`
	Message string `json:"message"`
}

// meaning is how one of Meta's errors is handled: words for the gateway, or a wait for the limiter.
type meaning struct {
	words string
	wait  time.Duration // how long to send nothing
	whom  httpcall.Whom // to whom wait applies
	gone  bool          // no message to this person will ever arrive
}

// errorTable holds Meta's errors that the gateway or the limiter should know of, by their codes. The notes on waits say
// what Meta limits.
var errorTable = map[int]meaning{
	4:      {wait: 5 * time.Minute, whom: httpcall.Bot},  // calls of the app in an hour
	80007:  {wait: 5 * time.Minute, whom: httpcall.Bot},  // of the business account
	130429: {wait: 5 * time.Second, whom: httpcall.Bot},  // messages a second
	131048: {wait: 30 * time.Minute, whom: httpcall.Bot}, // too many people blocked or reported the number
	131056: {wait: 6 * time.Second, whom: httpcall.Chat}, // messages to one person
	131047: {words: "more than 24 hours have passed since the person last wrote: until they write again, WhatsApp takes only templates"},
	131026: {words: "WhatsApp does not deliver to this person", gone: true},
	131021: {words: "the recipient is the bot's own number", gone: true},
	131030: {words: "the app's test number writes only to numbers on its list"},
	131031: {words: "Meta has locked the business account"},
	131042: {words: "the business account has no way to pay"},
	131045: {words: "the phone number is not registered at the Cloud API"},
	131049: {words: "WhatsApp held the message back, so that the person gets fewer from businesses"},
	131051: {words: "WhatsApp does not take this sort of message"},
	131053: {words: "WhatsApp does not take this file"},
	130472: {words: "WhatsApp held the message back, for an experiment of Meta's"},
	368:    {words: "Meta has blocked the business account for its policies"},
}

const codeToken = 190 // the token is wrong, or expired

// refused returns the Fault for an answer with an error.
func (p *Bot) refused(what string, a httpcall.Answer) *httpcall.Fault {
	var body struct {
		Error *apiError `json:"error"`
	}
	f := &httpcall.Fault{What: what, Status: a.Status, Sent: a.Sent, Message: httpcall.NoAnswer}
	if json.Unmarshal(a.Body, &body) == nil && body.Error != nil {
		f.Code, f.Message, f.Detail = body.Error.Code, p.api.Scrub(body.Error.Message), body.Error.Subcode
	}
	if a.Status < 500 {
		f.Sent = httpcall.Refused
	}
	if f.Code == codeToken {
		f.Sent, f.Status = httpcall.Refused, http.StatusUnauthorized
	}
	if k, ok := errorTable[f.Code]; ok && f.Code != 0 {
		f.Sent, f.Whom = httpcall.Refused, k.whom // the status of such an answer varies
		if f.RetryAfter = k.wait; k.wait > 0 {
			f.Status = http.StatusTooManyRequests
		}
	}
	if d, ok := httpcall.Seconds(a.Header.Get("Retry-After")); ok && f.Limited() {
		f.RetryAfter = max(d, f.RetryAfter)
	}
	return f
}

// explained turns err into the error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "WhatsApp", func(f *httpcall.Fault) *relay.ActionError {
		k := errorTable[f.Code]
		switch {
		case k.gone:
			return relay.Gone(k.words, nil)
		case k.words != "":
			return relay.Refused(k.words, nil)
		case f.Status == http.StatusUnauthorized:
			return relay.Refused("bad_credentials", nil)
		}
		return relay.Refused(fmt.Sprintf("WhatsApp refuses it (error %d)", f.Code), nil)
	})
}

// whyLost says why a message did not arrive although the API had accepted it.
func whyLost(errs []apiError) string {
	if len(errs) == 0 {
		return ""
	}
	code := errs[0].Code
	k := errorTable[code]
	switch {
	case k.words != "":
		return fmt.Sprintf("%s (error %d)", k.words, code)
	case k.wait > 0:
		return fmt.Sprintf("too many messages (error %d)", code)
	}
	return fmt.Sprintf("WhatsApp's error %d", code)
}
