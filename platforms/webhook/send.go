package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxAnswer is how many bytes are read of a receiver's answer.
	maxAnswer = 64 << 10
	// tryTime is how long a receiver may take, so that an action has time for another try.
	tryTime = 10 * time.Second
	noMore  = "the receiver wants no more messages"
)

// answer is the body posted to reply_url.
type answer struct {
	Type    string `json:"type"` // "message"
	Text    string `json:"text"` // as the agent wrote it, in CommonMark
	Chat    string `json:"chat,omitempty"`
	User    string `json:"user,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"` // the webhook-id that is answered
}

// Send implements platforms.Bot.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	content := markdown.Clean(a.Content)
	switch {
	case p.reply == "":
		return relay.Result{}, relay.Gone("the bot has no reply_url", nil)
	case p.gone.Load():
		return relay.Result{}, relay.Gone(noMore, nil)
	case strings.TrimSpace(content) == "":
		return relay.Result{}, relay.Refused("the message is empty", nil)
	case markdown.TooLong(content):
		return relay.Result{}, relay.Refused("the message is too long", nil)
	}
	return p.turns.Post(ctx, a.Chat, &sender.Plain{Parts: parts(content), Part: func(ctx context.Context, t *sender.Turn, text string) (relay.MessageID, error) {
		return p.part(ctx, t, a, text)
	}})
}

// parts cuts a text between characters where it is longer than a message may be.
func parts(text string) (out []string) {
	for part := range slices.Chunk([]rune(text), maxText) {
		out = append(out, string(part))
	}
	return out
}

// part posts one message of the action a, within a turn.
func (p *Bot) part(ctx context.Context, t *sender.Turn, a relay.Send, text string) (relay.MessageID, error) {
	id := "msg_" + relay.RandomText(relay.TokenLen/2)
	user, chat, _ := strings.Cut(string(a.Chat), "/")
	_, person, _ := strings.Cut(user, ":")
	body, err := json.Marshal(answer{Type: "message", Text: text, Chat: chat, User: person, ReplyTo: string(a.ReplyTo)})
	if err != nil {
		return "", err
	}
	// Again: the receiver recognises a repetition by its id.
	err = t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error { return p.post(ctx, id, body) }})
	return relay.MessageID(id), err
}

// post posts a message once. Its error is an *httpcall.Fault.
func (p *Bot) post(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	fault := &httpcall.Fault{What: "post"}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.reply, bytes.NewReader(body))
	if err != nil {
		fault.Sent, fault.Message = httpcall.Never, "reply_url makes no request"
		return fault
	}
	seconds := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set(headerID, id)
	r.Header.Set(headerTime, seconds)
	r.Header.Set(headerSign, signature(p.keys[0], id, seconds, body))
	a, failed := p.out.Do(r, "post")
	fault.Status, fault.Message = a.Status, http.StatusText(a.Status)
	switch {
	case a.Status >= 200 && a.Status < 300: // whatever the body says
		return nil
	case failed != nil:
		return failed
	case a.Status >= 500: // the receiver may have acted on the message
	default:
		if a.Status == http.StatusGone && !p.gone.Swap(true) {
			p.status.Set(platforms.Degraded, "reply_url wants no more answers (410): take it out, or name another one, and restart")
		}
		fault.Sent = httpcall.Refused
		if d, ok := httpcall.Seconds(a.Header.Get("Retry-After")); ok {
			fault.RetryAfter = d
		}
	}
	return fault
}

// explained turns err into an error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "reply_url", func(f *httpcall.Fault) *relay.ActionError {
		if f.Status == http.StatusGone {
			return relay.Gone(noMore, nil)
		}
		return relay.Refused(fmt.Sprintf("webhook: the receiver answered %d", f.Status), nil)
	})
}

// rates keep a gateway that has run wild from flooding the receiver.
func rates() ratelimit.Rates {
	return ratelimit.Rates{
		Bot:  ratelimit.Rate{Every: 50 * time.Millisecond, Burst: 20},
		Chat: ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 20},
	}
}
