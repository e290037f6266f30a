package matrix

import (
	"cmp"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// normaliser turns messages into events. Its methods are pure functions of its fields and their arguments.
type normaliser struct {
	bot relay.Bot
	me  id.UserID
	// name is the bot's name; empty: not known.
	name string
	// commands are the commands that a text may name after "!": clients of Matrix keep "/" for themselves.
	commands *platforms.CommandNames
}

// around is what is known about a message beside the message itself.
type around struct {
	spot
	// quote is the message to which it replies; nil: none, or not known.
	quote *relay.Quote
	// talks: the bot wrote in its thread.
	talks bool
}

// written reports whether e is something that a person said: not an edit, a notice or a redacted message.
func written(e *event.Event) (*event.MessageEventContent, bool) {
	c, ok := e.Content.Parsed.(*event.MessageEventContent)
	switch {
	case !ok || e.StateKey != nil || c.RelatesTo.GetReplaceID() != "":
		return nil, false
	case e.Type == event.EventSticker:
		return c, c.URL != ""
	}
	switch c.MsgType {
	case event.MsgText, event.MsgEmote, event.MsgImage, event.MsgVideo, event.MsgAudio, event.MsgFile, event.MsgLocation:
		return c, true
	}
	return nil, false
}

// message returns the event of a person's message.
func (n normaliser) message(chat relay.ChatID, e *event.Event, c *event.MessageEventContent, a around) relay.Event {
	ev := relay.Event{
		Bot: n.bot, At: relay.Moment(time.UnixMilli(e.Timestamp)), MessageID: relay.MessageID(e.ID),
		Source: relay.Source{
			Platform: n.bot.Platform, ChatID: chat, ChatType: a.kind, ChatName: a.name, ChatTopic: a.topic,
			UserID: relay.UserID(e.Sender), UserName: a.sender, UserDisplayName: a.sender, UserHandle: strings.TrimPrefix(string(e.Sender), "@"),
			ThreadID: relay.ThreadID(c.RelatesTo.GetThreadParent()), Scope: scopeOf(chat), MessageID: relay.MessageID(e.ID),
		},
	}
	ev.ID = eventID(chat, ev.MessageID)
	ev.Type, ev.Text = content(e, c)
	ev.Attachments = attachments(e, c)
	if answers := c.RelatesTo.GetNonFallbackReplyTo(); answers != "" {
		ev.ReplyToMessageID, ev.ReplyTo = relay.MessageID(answers), a.quote
	}
	mentioned := c.Mentions.Has(n.me) || n.pilled(event.TrimReplyFallbackHTML(c.FormattedBody))
	if mentioned {
		ev.Text = n.withoutMention(ev.Text)
	}
	if ev.Type == relay.TypeText {
		if ev.Text, _ = n.commands.Slashed(ev.Text); strings.HasPrefix(ev.Text, "/") {
			ev.Type = relay.TypeCommand
		}
	}
	ev.Traits.Addressed = mentioned || a.talks || ev.Type == relay.TypeCommand || ev.ReplyTo != nil && ev.ReplyTo.IsOwn
	return ev
}

// content returns the main type of a message, and its text without quotes.
func content(e *event.Event, c *event.MessageEventContent) (relay.MessageType, string) {
	text := c.Body
	if c.RelatesTo.GetReplyTo() != "" {
		text = event.TrimReplyFallbackText(text)
	}
	if e.Type == event.EventSticker {
		return relay.TypeSticker, text
	}
	switch c.MsgType {
	case event.MsgLocation:
		return relay.TypeLocation, pin(c)
	case event.MsgText, event.MsgEmote:
		return relay.TypeText, text
	}
	return kindOf(c), c.GetCaption()
}

// kindOf returns the type of a file.
func kindOf(c *event.MessageEventContent) relay.MessageType {
	switch {
	case c.MsgType == event.MsgImage:
		return relay.TypePhoto
	case c.MsgType == event.MsgVideo:
		return relay.TypeVideo
	case c.MsgType == event.MsgAudio && c.MSC3245Voice != nil:
		return relay.TypeVoice
	case c.MsgType == event.MsgAudio:
		return relay.TypeAudio
	}
	return relay.TypeDocument
}

// attachments returns the file of a message, if it can be fetched: not one encrypted for other devices.
func attachments(e *event.Event, c *event.MessageEventContent) []relay.Attachment {
	kind := kindOf(c)
	switch {
	case e.Type == event.EventSticker:
		kind = relay.TypeSticker
	case !c.MsgType.IsMedia():
		return nil
	}
	if uri, err := id.ParseContentURI(string(c.URL)); err != nil || uri.IsEmpty() {
		return nil
	}
	a := relay.Attachment{Ref: string(c.URL), Kind: kind, Name: c.GetFileName(), Caption: c.GetCaption()}
	if kind == relay.TypeSticker {
		a.Name, a.Caption = "", ""
	}
	if c.Info != nil {
		a.Size = int64(max(c.Info.Size, 0))
	}
	return []relay.Attachment{a}
}

// pin puts a location into words, as for other networks.
func pin(c *event.MessageEventContent) string {
	lines := []string{"[The user shared a location pin.]"}
	place, _, _ := strings.Cut(strings.TrimPrefix(c.GeoURI, "geo:"), ";")
	lat, lon, ok := strings.Cut(place, ",")
	lon, _, _ = strings.Cut(lon, ",")
	if body := strings.TrimSpace(c.Body); body != "" && !strings.Contains(body, c.GeoURI) {
		lines = append(lines, body)
	}
	if ok {
		lines = append(lines, "latitude: "+lat, "longitude: "+lon,
			"Map: https://www.google.com/maps/search/?api=1&query="+url.QueryEscape(lat)+","+url.QueryEscape(lon))
	}
	return strings.Join(append(lines, "If it is not clear what the place is for, ask."), "\n")
}

var pill = regexp.MustCompile(`href=["']https://matrix\.to/#/([^"'?]+)`)

// pilled reports whether a formatted text mentions the bot: a link to it, as clients make of a mention.
func (n normaliser) pilled(formatted string) bool {
	for _, m := range pill.FindAllStringSubmatch(formatted, -1) {
		who, err := url.PathUnescape(html.UnescapeString(m[1]))
		if err == nil && who == string(n.me) {
			return true
		}
	}
	return false
}

// withoutMention returns text without the bot's id, without the bot's name at the beginning, and without the
// punctuation behind them; it returns text itself if nothing would be left.
func (n normaliser) withoutMention(text string) string {
	out := text
	for {
		before, after, found := strings.Cut(out, string(n.me))
		if !found {
			break
		}
		out = strings.TrimRightFunc(before, unicode.IsSpace)
		if after = unpunctuated(after); out != "" && after != "" {
			out += " "
		}
		out += after
	}
	local, _, _ := strings.Cut(strings.TrimPrefix(string(n.me), "@"), ":")
	for _, name := range []string{n.name, "@" + n.name, "@" + local, local} {
		if len(name) > 1 && len(out) > len(name) && strings.EqualFold(out[:len(name)], name) && !isWord(out[len(name):]) {
			out = unpunctuated(out[len(name):])
			break
		}
	}
	return cmp.Or(strings.TrimSpace(out), text)
}

func unpunctuated(s string) string {
	return strings.TrimLeftFunc(strings.TrimLeft(s, ",:-"), unicode.IsSpace)
}

// isWord reports whether s begins with a letter, a digit or "_".
func isWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
}

// decoded decodes the event in raw, and its content if counts has its type. If only the content makes no sense, it
// returns the event and an error.
func decoded(raw []byte) (e *event.Event, err error) {
	defer func() {
		if v := recover(); v != nil {
			e, err = nil, fmt.Errorf("panic: %s", relay.PanicWords(v))
		}
	}()
	e = new(event.Event)
	if err := httpcall.Decode(raw, e); err != nil {
		return nil, err
	}
	e.Type.Class = event.MessageEventType
	if e.StateKey != nil {
		e.Type.Class = event.StateEventType
	}
	if !counts[e.Type] {
		return e, nil
	}
	if err := e.Content.ParseRaw(e.Type); err != nil {
		return e, fmt.Errorf("content of a %s: %w", e.Type.Type, errSenseless)
	}
	return e, nil
}

// counts are the types of events whose content is read.
var counts = map[event.Type]bool{
	event.EventMessage: true, event.EventSticker: true, event.StateMember: true, event.StateRoomName: true,
	event.StateCanonicalAlias: true, event.StateTopic: true, event.StateEncryption: true, event.StateTombstone: true,
	event.StateCreate: true, event.StatePowerLevels: true,
}
