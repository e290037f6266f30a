package signal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/hermes-connector/hermes-connector/relay"
)

// me reports whether somebody is the account itself.
func (p *Bot) me(uuid, number string) bool {
	return number == p.account || uuid != "" && idOf(uuid, "") == p.self()
}

// event returns the event of an envelope; nil: the envelope has nothing for the bot. The bot remembers what the
// envelope says about people.
func (p *Bot) event(env *envelope) *relay.Event {
	own := p.me(env.UUID, env.Number)
	p.learn(env.Number, idOf(env.UUID, ""), env.Name)
	m := env.Data
	switch {
	case env.Sync != nil && env.Sync.Sent != nil && own:
		s := env.Sync.Sent
		if spoke, _ := p.spoke.Get(s.Timestamp); spoke || s.Group != nil || !p.me(s.UUID, s.Number) {
			return nil // said to others, or by the bot
		}
		m = &s.dataMessage // a note to self
	case m == nil || own || env.UUID == "" && env.Number == "":
		return nil
	}
	if m.Group != nil && m.Group.Type == "UPDATE" || m.Timestamp <= 0 {
		return nil
	}
	text, named := p.text(m.Text, m.Mentions)
	files := attachments(m)
	text = cmp.Or(text, contactsIn(m))
	if text == "" && len(files) == 0 {
		return nil // a reaction, a deletion, a profile's key
	}
	src := p.source(env, m)
	ev := &relay.Event{
		ID: relay.EventID(src.MessageID), Bot: p.bot, At: relay.Moment(time.UnixMilli(m.Timestamp)), Source: src,
		Type: typeOf(text, files), Text: text, MessageID: src.MessageID, Attachments: files,
		Traits: relay.Traits{Addressed: named || src.ChatType == relay.ChatDM},
	}
	if q := m.Quote; q != nil {
		mine := p.me(q.UUID, q.Number)
		quoted, _ := p.text(q.Text, q.Mentions)
		ev.ReplyToMessageID = p.idFor(q.UUID, q.Number, q.ID)
		ev.ReplyTo = &relay.Quote{Text: quoted, Author: p.called(q.UUID, q.Number), IsOwn: mine}
		ev.Traits.Addressed = ev.Traits.Addressed || mine
	}
	ev.Traits.Addressed = ev.Traits.Addressed || ev.Type == relay.TypeCommand
	p.remember(src.ChatID, src.MessageID, text)
	return ev
}

// idFor returns the id of a message. The author of the account's own messages is the account's number, whether the
// network names it by its number or its UUID.
func (p *Bot) idFor(uuid, number string, at int64) relay.MessageID {
	if p.me(uuid, number) {
		return messageID(p.account, at)
	}
	return messageID(string(idOf(uuid, number)), at)
}

func (p *Bot) source(env *envelope, m *dataMessage) relay.Source {
	who, name := idOf(env.UUID, env.Number), cmp.Or(env.Name, env.Number, env.UUID)
	id := messageID(string(who), m.Timestamp) // a note to self gets an id like this too: it is not a message of the bot
	src := relay.Source{
		Platform: Name, ChatID: relay.ChatID(cmp.Or(env.Number, string(who))), ChatType: relay.ChatDM, ChatName: name,
		UserID: who, UserName: name, UserDisplayName: name, UserHandle: env.Number, MessageID: id,
	}
	if env.UUID != "" {
		src.UserIDAlt = who
	}
	if g := m.Group; g != nil {
		src.ChatID, src.ChatType, src.ChatName = relay.ChatID("group:"+g.ID), relay.ChatGroup, cmp.Or(g.Name, "group")
		src.ChatIDAlt = relay.ChatID(g.ID)
	}
	return src
}

// text returns text with names in the place of mentions, and without mentions of the bot; named: the bot is mentioned.
// It begins with the last mention, so that the positions of the others stay right.
func (p *Bot) text(text string, mentions []mention) (_ string, named bool) {
	if len(mentions) == 0 {
		return text, false
	}
	units := utf16.Encode([]rune(text))
	slices.SortFunc(mentions, func(a, b mention) int { return cmp.Compare(b.Start, a.Start) })
	end := len(units)
	for _, m := range mentions {
		if m.Start < 0 || m.Length < 0 || m.Start > end || m.Length > end-m.Start {
			continue
		}
		name := "@" + p.called(m.UUID, m.Number)
		if p.me(m.UUID, m.Number) {
			name, named = "", true
		}
		units = slices.Concat(units[:m.Start], utf16.Encode([]rune(name)), units[m.Start+m.Length:])
		end = m.Start
	}
	out := string(utf16.Decode(units))
	if named {
		out = cmp.Or(strings.TrimSpace(strings.TrimLeft(out, ",: ")), "@"+p.account)
	}
	return out, named
}

func typeOf(text string, files []relay.Attachment) relay.MessageType {
	switch {
	case strings.HasPrefix(text, "/"):
		return relay.TypeCommand
	case len(files) > 0:
		return files[0].Kind
	}
	return relay.TypeText
}

// stickerRef begins the reference of a sticker; other files have the daemon's id.
const stickerRef = "sticker:"

func attachments(m *dataMessage) (out []relay.Attachment) {
	for _, a := range m.Attachments {
		if a.ID != "" {
			out = append(out, relay.Attachment{Ref: a.ID, Kind: kindOf(a), Name: a.Name, Size: max(a.Size, 0)})
		}
	}
	if s := m.Sticker; s != nil && s.Pack != "" {
		out = append(out, relay.Attachment{Ref: fmt.Sprintf("%s%s:%d", stickerRef, s.Pack, s.ID), Kind: relay.TypeSticker})
	}
	return out[:min(len(out), relay.MaxAttachments)]
}

// kindOf returns the type of a file. Signal's clients give a voice note no name.
func kindOf(a attachment) relay.MessageType {
	kind, _, _ := strings.Cut(a.Type, "/")
	switch {
	case kind == "image":
		return relay.TypePhoto
	case kind == "video":
		return relay.TypeVideo
	case kind == "audio" && a.Name == "":
		return relay.TypeVoice
	case kind == "audio":
		return relay.TypeAudio
	}
	return relay.TypeDocument
}

// contactsIn returns the contacts that a message shares, a line each.
func contactsIn(m *dataMessage) string {
	var lines []string
	for _, c := range m.Contacts {
		line := strings.TrimSpace(c.Name.Given + " " + c.Name.Family)
		for _, n := range c.Phones {
			line = strings.TrimSpace(line + " " + n.Value)
		}
		if line != "" {
			lines = append(lines, "Contact: "+line)
		}
	}
	return strings.Join(lines, "\n")
}
