package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxBody = 1 << 20
	// wait is how long we let a caller wait while a message is stored. By Standard Webhooks, senders give up after 15 s
	// or more.
	wait = 12 * time.Second
	// maxName bounds the user and the chat that a caller names, in bytes.
	maxName  = 128
	jsonType = "application/json"
)

// HookRules implements platforms.Hook.
func (p *Bot) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodPost}, MaxBody: maxBody,
		Enter: "the sender", Doubt: "does the sender sign with a line of secret_file, in the form of Standard Webhooks?",
	}
}

// Receive implements platforms.Hook.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	id, seconds := r.Header.Get(headerID), r.Header.Get(headerTime)
	if !isID(id) || !verified(p.keys, r.Header.Get(headerSign), id, seconds, r.Body) {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	at, stale, ok := inbox.Stale(seconds, time.Now())
	if !ok {
		return stale
	}
	r.Proved()
	p.status.EventReceived()
	ev, err := p.event(id, at, r.Body)
	if err != nil {
		body, _ := json.Marshal(map[string]string{"error": err.Error()}) // of strings: cannot fail
		return platforms.HookAnswer{Status: http.StatusBadRequest, Type: jsonType, Body: body, Refused: platforms.Unreadable}
	}
	known, err := p.feed.TakeNew(ctx, platforms.Batch{Events: []relay.Event{ev}}, wait)
	if err != nil {
		return inbox.Unstored()
	}
	return inbox.OK(jsonType, fmt.Sprintf(`{"accepted":true,"duplicate":%t}`, known))
}

// message is the body of a request: a message, or an event as other services send them.
type message struct {
	Text  *string         `json:"text"`
	Chat  string          `json:"chat"`
	User  string          `json:"user"`
	Title string          `json:"title"`
	Type  string          `json:"type"`
	Data  json.RawMessage `json:"data"`
}

// event makes an event of a body. Its error names the faulty member.
func (p *Bot) event(id string, at time.Time, body []byte) (ev relay.Event, err error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return ev, unreadable(err)
	}
	if !utf8.Valid(body) {
		return ev, errors.New("the body is not UTF-8")
	}
	text, err := m.said()
	if err != nil {
		return ev, err
	}
	user, name := relay.UserID(p.name), p.name
	if err := cmp.Or(checkName("user", m.User), checkName("chat", m.Chat)); err != nil {
		return ev, err
	}
	if m.User != "" {
		user, name = user+relay.UserID(":"+m.User), m.User
	}
	chat := relay.ChatID(user)
	if m.Chat != "" {
		chat += relay.ChatID("/" + m.Chat)
	}
	kind := relay.TypeText
	if strings.HasPrefix(text, "/") {
		kind = relay.TypeCommand
	}
	return relay.Event{
		ID: relay.EventID(id), Bot: p.bot, At: at, Type: kind, Text: text, MessageID: relay.MessageID(id),
		Source: relay.Source{
			Platform: Name, ChatID: chat, ChatType: relay.ChatDM, ChatName: cmp.Or(m.Chat, name),
			UserID: user, UserName: name, UserDisplayName: name, MessageID: relay.MessageID(id),
		},
		Traits: relay.Traits{Addressed: true},
	}, nil
}

// said returns the text of the message, with its title; of an event, its type and its data.
func (m message) said() (string, error) {
	if m.Text == nil {
		if m.Type == "" {
			return "", errors.New(`"text" is missing`)
		}
		var data bytes.Buffer
		if string(m.Data) != "null" && len(m.Data) > 0 {
			_ = json.Compact(&data, m.Data) // it was parsed
		}
		return strings.TrimSpace(headed(m.Type) + "\n" + data.String()), nil
	}
	text := strings.TrimSpace(*m.Text)
	switch {
	case text == "":
		return "", errors.New(`"text" is empty`)
	case strings.TrimSpace(m.Title) == "" || strings.HasPrefix(text, "/"): // behind a title a command would not be one
		return text, nil
	}
	return headed(m.Title) + "\n" + text, nil
}

// headed returns s as the first line of a message. A title like "/dev/sda1 is full" would make the message a command,
// which only a text may be, so headed puts such a title in quotation marks.
func headed(s string) string {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "/") {
		return `"` + s + `"`
	}
	return s
}

// checkName returns why s cannot name a person or a chat; nil if it can. With '/' or ':' in it, the name would make the
// id of another person or chat.
func checkName(member, s string) error {
	if len(s) > maxName || strings.ContainsFunc(s, func(r rune) bool { return r == '/' || r == ':' || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q: want at most %d bytes without '/', ':' and control characters", member, maxName)
	}
	return nil
}

// unreadable returns why a body is malformed, without quoting it.
func unreadable(err error) error {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && te.Field != "" {
		return fmt.Errorf("%q: want %s", te.Field, te.Type)
	}
	return errors.New("the body is no JSON object")
}
