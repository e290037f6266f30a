package sms

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxBody = 64 << 10
	sidLen  = 34 // of every SID
	// wait is how long we let Twilio wait while a message is stored; Twilio gives up after 15 s.
	wait = 10 * time.Second
	// noReply is TwiML that answers nothing.
	noReply = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`
	xmlType = "text/xml"
)

// HookRules implements platforms.Hook.
func (p *Bot) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodPost}, MaxBody: maxBody,
		Enter: "Twilio console > Phone Numbers > the number > Messaging > A message comes in",
		Doubt: "is public_url what Twilio calls, and token_file the auth token of account_sid?",
	}
}

// Receive implements platforms.Hook. Twilio's signature covers no time: a repeated request is recognised by its
// MessageSid.
func (p *Bot) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	taken := inbox.OK(xmlType, noReply)
	form, ok := verified(p.token.Reveal(), r.Header.Get(headerSign), p.origins, r.Target, r.Body)
	if !ok {
		return inbox.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	p.status.EventReceived()
	if status := form.Get("MessageStatus"); status != "" && form.Get("SmsStatus") != "received" {
		taken.Notes = p.noted(status, form)
		return taken
	}
	var b platforms.Batch
	switch ev, ok := p.event(form, time.Now()); {
	case !ok: // no error status: a repetition would be as unreadable
		taken.Refused = platforms.Unreadable
		b.Undecodable = []platforms.Undecodable{{Raw: r.Body, Err: errUnreadable}}
	case form.Get("AccountSid") != p.account || form.Get("To") != p.from && form.Get("MessagingServiceSid") != p.from:
		taken.Refused = platforms.WrongRecipient
		return taken
	default:
		b.Events = []relay.Event{ev}
	}
	if err := p.feed.Take(ctx, b, wait); err != nil {
		return inbox.Unstored()
	}
	return taken
}

var errUnreadable = errors.New("a request of Twilio's that is no form with a MessageSid and a From")

// event returns the event of a message that a person sent; ok is false if the form lacks an id, or has a wrong one.
func (p *Bot) event(form url.Values, now time.Time) (ev relay.Event, ok bool) {
	sid, from := form.Get("MessageSid"), form.Get("From")
	// Twilio joins names and values before it signs them: in a longer id, what is behind the SID was taken from another
	// parameter, and would make a new id of an old message's.
	if sid == "" || len(sid) > sidLen || from == "" {
		return ev, false
	}
	name := cmp.Or(form.Get("ProfileName"), from)
	text := cmp.Or(form.Get("ButtonText"), form.Get("Body"))
	kind := relay.TypeText
	if form.Get("Latitude") != "" && form.Get("Longitude") != "" {
		kind, text = relay.TypeLocation, located(form, text)
	}
	if mime := form.Get("MediaContentType0"); mime != "" {
		kind = mediaType(mime)
	}
	if strings.HasPrefix(text, "/") {
		kind = relay.TypeCommand
	}
	id := relay.MessageID(sid)
	return relay.Event{
		ID: relay.EventID(sid), Bot: p.bot, At: now, Type: kind, Text: text, MessageID: id,
		Source: relay.Source{
			Platform: Name, ChatID: relay.ChatID(from), ChatType: relay.ChatDM, ChatName: name,
			UserID: relay.UserID(from), UserName: name, UserDisplayName: name, MessageID: id,
		},
		Traits: relay.Traits{Addressed: true, Costly: true, Own: from == p.from || from == form.Get("To")},
	}, true
}

// located returns the text of a place that somebody sent.
func located(form url.Values, text string) string {
	lines := []string{form.Get("Label"), form.Get("Address"), form.Get("Latitude") + ", " + form.Get("Longitude"), text}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}

// mediaType returns the main type of a message with a file of that MIME type.
func mediaType(mime string) relay.MessageType {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image":
		return relay.TypePhoto
	case "video":
		return relay.TypeVideo
	case "audio":
		return relay.TypeAudio
	}
	return relay.TypeDocument
}
