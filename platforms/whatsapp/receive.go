package whatsapp

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	headerSign = "X-Hub-Signature-256"
	maxBody    = 3 << 20 // bytes of a call
	// wait is how long a call of Meta's may wait to be stored. If it is not stored by then, it is not answered with
	// 200, and for days Meta repeats it.
	wait = 8 * time.Second
	// maxChallenge is how long a challenge may be. Meta's have ten digits.
	maxChallenge = 256
	textType     = "text/plain; charset=utf-8"
)

// HookRules implements platforms.Hook. With a GET Meta asks whether the address is ours.
func (p *Bot) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodGet, http.MethodPost}, MaxBody: maxBody,
		Enter: "Meta's app dashboard > WhatsApp > Configuration > Webhook, with the verify token; then subscribe to messages",
		Doubt: "is app_secret the secret of the app in which the web hook is entered, and verify_token the text that was entered there?",
	}
}

// Receive implements platforms.Hook. Meta's signature covers no time: a repeated message is recognised by its seen
// mark.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	if r.Method == http.MethodGet {
		return p.challenged(r)
	}
	if !verified(p.secret.Reveal(), r.Header.Get(headerSign), r.Body) {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	p.status.EventReceived()
	answer := inbox.OK(textType, "")
	var b platforms.Batch
	var call webhook
	if err := httpcall.Decode(r.Body, &call); err != nil { // Meta need not repeat it: it would be no more readable
		answer.Refused = platforms.Unreadable
		b.Undecodable = []platforms.Undecodable{{Raw: r.Body, Err: err}}
	}
	p.collect(call, &b, &answer)
	if len(b.Events)+len(b.Undecodable) == 0 {
		return answer
	}
	b.Refused = p.refuse(b.Events)
	if err := p.feed.Take(ctx, b, wait); err != nil {
		return inbox.Unstored()
	}
	return answer
}

// challenged answers Meta's question whether the address is ours.
func (p *Bot) challenged(r platforms.HookRequest) platforms.HookAnswer {
	u, err := url.Parse(r.Target)
	if err != nil {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	q := u.Query()
	challenge := q.Get("hub.challenge")
	if subtle.ConstantTimeCompare([]byte(q.Get("hub.verify_token")), p.verify.Reveal()) != 1 || q.Get("hub.mode") != "subscribe" ||
		len(challenge) > maxChallenge {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	return inbox.OK(textType, challenge)
}

// verified reports whether the header is Meta's signature of body.
func verified(secret []byte, header string, body []byte) bool {
	digits, ok := strings.CutPrefix(header, "sha256=")
	got, err := hex.DecodeString(digits)
	m := hmac.New(sha256.New, secret)
	m.Write(body)
	return ok && err == nil && hmac.Equal(got, m.Sum(nil))
}

// webhook is the part of Meta's call that we read.
type webhook struct {
	Entry []struct {
		Changes []struct {
			Field string `json:"field"`
			Value struct {
				Metadata struct {
					ID string `json:"phone_number_id"`
				} `json:"metadata"`
				Contacts []contact         `json:"contacts"`
				Messages []json.RawMessage `json:"messages"`
				Statuses []delivery        `json:"statuses"`
				Errors   []apiError        `json:"errors"`
			} `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

// delivery reports what happened to a message that we sent.
type delivery struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	To     string     `json:"recipient_id"`
	Errors []apiError `json:"errors"`
}

// contact is the sender of a message.
type contact struct {
	Number  string `json:"wa_id"`
	User    string `json:"user_id"` // identifies people who hide their number
	Profile struct {
		Name     string `json:"name"`
		Username string `json:"username"`
	} `json:"profile"`
}

// message is a message of any type.
type message struct {
	From    string  `json:"from"`
	User    string  `json:"from_user_id"`
	ID      string  `json:"id"`
	At      string  `json:"timestamp"` // seconds since 1970
	Type    string  `json:"type"`
	Chat    present `json:"chat"`     // set in a group
	Group   present `json:"group_id"` // set in a group
	Text    struct{ Body string }
	Image   *media `json:"image"`
	Video   *media `json:"video"`
	Audio   *media `json:"audio"`
	Voice   *media `json:"voice"`
	File    *media `json:"document"`
	Sticker *media `json:"sticker"`
	Button  struct{ Text string }
	Pressed struct {
		Button choice `json:"button_reply"`
		Row    choice `json:"list_reply"`
	} `json:"interactive"`
	Location *struct {
		Latitude  float64 `json:"latitude"`
		Longitude float64 `json:"longitude"`
		Name      string  `json:"name"`
		Address   string  `json:"address"`
	} `json:"location"`
	Contacts []struct {
		Name struct {
			Full string `json:"formatted_name"`
		} `json:"name"`
		Phones []struct{ Phone string } `json:"phones"`
	} `json:"contacts"`
	Context struct {
		ID        string `json:"id"`
		From      string `json:"from"`
		Forwarded bool   `json:"forwarded"`
		Often     bool   `json:"frequently_forwarded"`
	} `json:"context"`
}

// present is true if the JSON value is neither null nor "".
type present bool

func (a *present) UnmarshalJSON(raw []byte) error {
	*a = string(raw) != "null" && string(raw) != `""`
	return nil
}

// choice is the button or the row that a person chose.
type choice struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// media is a file on Meta's servers.
type media struct {
	ID      string `json:"id"`
	Caption string `json:"caption"`
	Name    string `json:"filename"`
	Voice   bool   `json:"voice"`
}

var errUnreadable = errors.New("a message without an id or a sender")

// collect adds the events of a call to b, and sets in answer what was refused and what happened to our messages.
func (p *Bot) collect(call webhook, b *platforms.Batch, answer *platforms.HookAnswer) {
	for _, entry := range call.Entry {
		for _, c := range entry.Changes {
			v := c.Value
			switch {
			case c.Field != "messages":
				continue
			case v.Metadata.ID != string(p.bot.ID):
				answer.Refused = platforms.WrongRecipient
				continue
			}
			for _, s := range v.Statuses {
				answer.Notes = append(answer.Notes, p.notesOf(s)...)
			}
			for _, e := range v.Errors {
				p.log.Warn("whatsapp tells of an error", "code", e.Code)
			}
			for _, raw := range v.Messages {
				var m message
				var ev *relay.Event
				err := httpcall.Decode(raw, &m)
				if err == nil && bool(m.Chat || m.Group) {
					answer.Refused = platforms.OfGroup
					continue
				}
				if err == nil {
					ev, err = p.event(m, v.Contacts)
				}
				if err != nil { // the other messages of the call are still read
					answer.Refused = platforms.Unreadable
					b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: raw, Err: err})
				}
				if ev != nil {
					b.Events = append(b.Events, *ev)
				}
			}
		}
	}
}

// notesOf returns what happened to a message that we sent, if that is counted.
func (p *Bot) notesOf(s delivery) []platforms.HookNote {
	if !slices.Contains(platforms.HookNotes(), s.Status) {
		return nil
	}
	n := platforms.HookNote{Status: s.Status}
	if s.Status == "failed" {
		n.Chat, n.Message, n.Why = relay.ChatID(s.To), relay.MessageID(s.ID), whyLost(s.Errors)
		p.log.Warn("whatsapp could not deliver a message", "why", n.Why)
	}
	return []platforms.HookNote{n}
}

// event makes an event of a message; nil if there is nothing in it for a gateway.
func (p *Bot) event(m message, people []contact) (*relay.Event, error) {
	from := cmp.Or(m.From, m.User)
	seconds, err := strconv.ParseUint(m.At, 10, 40)
	if m.ID == "" || !personForm.MatchString(from) || err != nil {
		return nil, errUnreadable
	}
	who := contact{Number: m.From, User: m.User}
	for _, c := range people {
		if c.Number != "" && c.Number == m.From || c.User != "" && c.User == m.User || len(people) == 1 {
			who = c
		}
	}
	name := cmp.Or(who.Profile.Name, from)
	id := relay.MessageID(m.ID)
	ev := &relay.Event{
		ID: relay.EventID(m.ID), Bot: p.bot, At: relay.Moment(time.Unix(int64(seconds), 0)), Type: relay.TypeText, MessageID: id,
		ReplyToMessageID: relay.MessageID(m.Context.ID),
		Source: relay.Source{
			Platform: Name, ChatID: relay.ChatID(from), ChatType: relay.ChatDM, ChatName: name, UserID: relay.UserID(from),
			UserName: name, UserDisplayName: name, UserHandle: who.Profile.Username, MessageID: id, UserIDAlt: relay.UserID(cmp.Or(m.User, who.User)),
		},
		Traits: relay.Traits{Addressed: true, Forwarded: m.Context.Forwarded || m.Context.Often},
	}
	if ev.ReplyToMessageID != "" {
		said, _ := p.said.Get(ev.ReplyToMessageID)
		ev.ReplyTo = &relay.Quote{IsOwn: m.Context.From != "" && m.Context.From != from, Text: said}
	}
	if !m.copyTo(ev) {
		return nil, nil
	}
	if strings.HasPrefix(ev.Text, "/") && (ev.Type == relay.TypeText || len(ev.Attachments) > 0) {
		ev.Type = relay.TypeCommand
	}
	p.newest.Put(relay.ChatID(from), id)
	p.remember(id, ev.Text)
	return ev, nil
}

const (
	// remembered is how many messages and chats are remembered.
	remembered = 2000
	// maxQuoted is how many bytes of a message are remembered.
	maxQuoted = 500
)

// remember notes the text of a message.
func (p *Bot) remember(id relay.MessageID, text string) {
	if len(text) > maxQuoted {
		text = relay.Shown(text[:maxQuoted]) + "…"
	}
	p.said.Put(id, text)
}

// copyTo copies the text, or the files, of m into ev. It reports whether there are any.
func (m message) copyTo(ev *relay.Event) bool {
	switch m.Type {
	case "text":
		ev.Text = m.Text.Body
	case "button": // a button of a template
		ev.Text = m.Button.Text
	case "interactive":
		c := m.Pressed.Button
		if c.ID == "" {
			c = m.Pressed.Row
		}
		ev.Text = c.Title
		if prompt, option, ok := relay.ParsePromptData(c.ID); ok {
			ev.Type, ev.Text, ev.Traits = relay.TypeCommand, "/"+option, relay.Traits{Press: true}
			ev.Prompt = &relay.PromptResponse{PromptID: prompt, OptionID: option, Label: c.Title, PromptMessageID: relay.MessageID(m.Context.ID)}
			ev.ReplyTo, ev.ReplyToMessageID = nil, ""
		}
	case "location":
		if m.Location == nil {
			return false
		}
		l := *m.Location
		lines := []string{l.Name, l.Address, fmt.Sprintf("%v, %v", l.Latitude, l.Longitude)}
		ev.Type, ev.Text = relay.TypeLocation, strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
	case "contacts":
		var lines []string
		for _, c := range m.Contacts {
			line := "Contact: " + c.Name.Full
			for _, n := range c.Phones {
				line += " " + n.Phone
			}
			lines = append(lines, line)
		}
		ev.Text = strings.Join(lines, "\n")
	default:
		m.copyFileTo(ev)
	}
	return ev.Text != "" || len(ev.Attachments) > 0
}

// copyFileTo copies the file of m into ev.
func (m message) copyFileTo(ev *relay.Event) {
	for _, f := range []struct {
		kind relay.MessageType
		is   *media
	}{
		{relay.TypePhoto, m.Image}, {relay.TypeVideo, m.Video}, {relay.TypeAudio, m.Audio}, {relay.TypeVoice, m.Voice},
		{relay.TypeDocument, m.File}, {relay.TypeSticker, m.Sticker},
	} {
		if f.is == nil || f.is.ID == "" {
			continue
		}
		if f.kind == relay.TypeAudio && f.is.Voice {
			f.kind = relay.TypeVoice
		}
		ev.Type, ev.Text = f.kind, f.is.Caption
		ev.Attachments = []relay.Attachment{{Ref: f.is.ID, Kind: f.kind, Name: f.is.Name, Caption: f.is.Caption}}
		return
	}
}
