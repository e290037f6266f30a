package sms

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/hook"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxBody = 64 << 10
	// wait is how long Twilio is kept waiting for the disk; it gives up after 15 s.
	wait = 10 * time.Second
	// noReply is TwiML that answers nothing.
	noReply = `<?xml version="1.0" encoding="UTF-8"?><Response></Response>`
	xmlType = "text/xml"
)

// HookRules implements platforms.Hook.
func (p *Platform) HookRules() platforms.HookRules {
	return platforms.HookRules{
		Methods: []string{http.MethodPost}, MaxBody: maxBody,
		Enter: "Twilio console > Phone Numbers > the number > Messaging > A message comes in",
		Doubt: "is public_url what Twilio calls, and token_file the auth token of account_sid?",
	}
}

// Receive implements platforms.Hook. Twilio signs no time: a repetition ends at the seen mark of its MessageSid.
func (p *Platform) Receive(ctx context.Context, r platforms.HookRequest) platforms.HookAnswer {
	taken := hook.OK(xmlType, noReply)
	address, err := p.address(r.Target)
	form, formErr := url.ParseQuery(string(r.Body))
	if err != nil || !verified(p.token.Reveal(), r.Header.Get(headerSign), address, r.Body, form) {
		return hook.Unauthorized(platforms.BadSignature)
	}
	r.Proved()
	p.board.Heard()
	if formErr != nil || address.Query().Has(bodyHashKey) {
		return p.unreadable(ctx, r.Body, "not a form")
	}
	if status := form.Get("MessageStatus"); status != "" && form.Get("Body") == "" && form.Get("SmsStatus") != "received" {
		taken.Note = p.noted(status, form.Get("ErrorCode"))
		return taken
	}
	if form.Get("AccountSid") != p.account || !p.isOurs(form.Get("To")) && !p.isOurs(form.Get("MessagingServiceSid")) {
		taken.Refused = platforms.WrongRecipient
		return taken
	}
	ev, ok := p.event(form, time.Now())
	if !ok {
		return p.unreadable(ctx, r.Body, "no MessageSid, or no From")
	}
	if err := p.feed.Take(ctx, platforms.Batch{Events: []relay.Event{ev}}, wait); err != nil {
		return hook.Unstored()
	}
	return taken
}

// address is what Twilio called, as it knows it. The target is the request's: path and query.
func (p *Platform) address(target string) (*url.URL, error) {
	return url.Parse(p.origin + target)
}

// isOurs reports whether a message was for this bot.
func (p *Platform) isOurs(to string) bool { return to != "" && to == p.from }

// unreadable puts a verified request that makes no sense into quarantine, and answers as if it were fine: a
// repetition would make no more sense.
func (p *Platform) unreadable(ctx context.Context, body []byte, why string) platforms.HookAnswer {
	bad := platforms.Undecodable{Raw: body, Err: errUnreadable(why)}
	if err := p.feed.Take(ctx, platforms.Batch{Undecodable: []platforms.Undecodable{bad}}, wait); err != nil {
		return hook.Unstored()
	}
	a := hook.OK(xmlType, noReply)
	a.Refused = platforms.Unreadable
	return a
}

type errUnreadable string

func (e errUnreadable) Error() string { return "Twilio's request makes no sense: " + string(e) }

// event is a message that came.
func (p *Platform) event(form url.Values, now time.Time) (ev relay.Event, ok bool) {
	sid, from := form.Get("MessageSid"), form.Get("From")
	if sid == "" || from == "" {
		return ev, false
	}
	name := from
	if n := form.Get("ProfileName"); n != "" {
		name = n
	}
	text := form.Get("Body")
	if b := form.Get("ButtonText"); b != "" {
		text = b
	}
	kind := relay.TypeText
	if form.Get("Latitude") != "" && form.Get("Longitude") != "" {
		kind, text = relay.TypeLocation, located(form, text)
	}
	if form.Get("NumMedia") != "" && form.Get("NumMedia") != "0" {
		kind = mediaType(form.Get("MediaContentType0"))
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
		Traits: relay.Traits{Addressed: true, Own: from == p.from},
	}, true
}

// located is the text of a place that somebody sent.
func located(form url.Values, text string) string {
	lines := []string{form.Get("Label"), form.Get("Address"), form.Get("Latitude") + ", " + form.Get("Longitude"), text}
	var out []string
	for _, l := range lines {
		if l != "" {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// mediaType is what a message with a file of that MIME type mainly is.
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
