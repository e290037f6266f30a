package telegram

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// identity is the bot's account, from getMe.
type identity struct {
	id   int64
	name string // without "@"
}

// called reports whether name is the bot's. Telegram's names know no case.
func (me identity) called(name string) bool { return me.name != "" && strings.EqualFold(name, me.name) }

// topicKey is a topic of a forum or of a direct-message chat.
type topicKey struct{ chat, thread int64 }

// reading is the result of reading one update. The zero value: nothing of interest.
type reading struct {
	event  *relay.Event
	moves  []platforms.Move
	roster []platforms.RosterChange
	own    int      // how many of the event's attachments are the message's own; the others belong to the message to which it replies
	topic  topicKey // the topic whose name became known, which is in named; zero: none
	named  string
	post   *message // the message of event, if it is a new one
}

// normaliser turns updates into events. Its methods are pure functions of its fields and the update.
type normaliser struct {
	bot    relay.Bot
	me     identity
	edits  bool    // edits of old messages are events of their own
	topics *topics // names known so far; only read
}

var (
	errWithoutChat = errors.New("a message without a chat")
	errWithoutID   = errors.New("a message without an id")
)

// normalise returns the reading of u, or why u makes no sense.
func (n normaliser) normalise(u *update) (reading, error) {
	switch {
	case u.post() != nil:
		o, err := n.message(u.post(), "")
		o.post = u.post()
		return o, err
	case u.EditedMessage != nil:
		return n.message(u.EditedMessage, editOf(u.ID, u.EditedMessage))
	case u.EditedChannelPost != nil:
		return n.message(u.EditedChannelPost, editOf(u.ID, u.EditedChannelPost))
	case u.MyChatMember != nil: // the bot's own status changed: what it knew of the chat is void
		return reading{roster: []platforms.RosterChange{{Chat: chatID(u.MyChatMember.Chat.ID)}}}, nil
	case u.ChatMember != nil:
		return reading{roster: []platforms.RosterChange{n.rosterChange(u.ChatMember.Chat.ID, u.ChatMember.New.User)}}, nil
	}
	if u.CallbackQuery != nil {
		return n.press(u.CallbackQuery)
	}
	return reading{}, nil
}

// message reads m. edit identifies an edit, and follows the message's id; empty: m is new.
func (n normaliser) message(m *message, edit string) (reading, error) {
	switch {
	case m.Chat.ID == 0:
		return reading{}, errWithoutChat
	case m.ID == 0:
		return reading{}, errWithoutID
	case edit != "" && (!n.edits || m.Location != nil): // a live location is edited every few seconds
		return reading{}, nil
	}
	o := n.service(m)
	kind, text, ok := content(m)
	if !ok {
		return o, nil
	}

	ev := relay.Event{
		Bot:       n.bot,
		At:        relay.Moment(time.Unix(m.Date, 0)),
		Source:    n.source(m, o),
		Type:      kind,
		MessageID: messageID(m.ID),
		Traits:    relay.Traits{Own: n.own(m), AuthorIsBot: m.From != nil && m.From.IsBot && m.SenderChat == nil, Forwarded: m.Origin != nil},
	}
	if edit != "" {
		ev.At = relay.Moment(time.Unix(m.EditDate, 0))
		ev.MessageID += relay.MessageID(edit)
	}
	ev.ID = eventID(ev.Source.ChatID, ev.MessageID)
	ev.Source.MessageID = ev.MessageID

	a := addressed(m.body(), m.entities(), n.me, ev.Source.ChatType == relay.ChatDM)
	ev.Text = withoutMention(text, n.me)
	if kind == relay.TypeText && (a.command || strings.HasPrefix(ev.Text, "/")) {
		ev.Type = relay.TypeCommand
	}
	n.reply(m, &ev)
	ev.Attachments, o.own = attachments(m)
	ev.Traits.OtherCommand = a.otherCommand
	ev.Traits.DeepLink = ev.Source.ChatType == relay.ChatDM && opened(ev.Text)
	ev.Traits.Addressed = a.me || ev.ReplyTo != nil && ev.ReplyTo.IsOwn
	o.event = &ev
	return o, nil
}

// own reports whether the bot itself wrote m, or somebody let it write through inline mode.
func (n normaliser) own(m *message) bool {
	return m.From != nil && m.From.ID == n.me.id || m.ViaBot != nil && m.ViaBot.ID == n.me.id
}

// service reads everything from a message except what a person wrote: the chat's move, members who came or left, and
// the name of the topic.
func (n normaliser) service(m *message) reading {
	var o reading
	switch {
	case m.MigrateTo != 0:
		o.moves = []platforms.Move{{From: chatID(m.Chat.ID), To: chatID(m.MigrateTo)}}
	case m.MigrateFrom != 0:
		o.moves = []platforms.Move{{From: chatID(m.MigrateFrom), To: chatID(m.Chat.ID)}}
	}
	for _, u := range m.NewMembers {
		o.roster = append(o.roster, n.rosterChange(m.Chat.ID, u))
	}
	if m.LeftMember != nil {
		o.roster = append(o.roster, n.rosterChange(m.Chat.ID, *m.LeftMember))
	}

	key := topicKey{m.Chat.ID, m.ThreadID}
	switch {
	case key.thread == 0:
	case m.TopicCreated != nil && m.TopicCreated.Name != "":
		o.topic, o.named = key, m.TopicCreated.Name
	case m.TopicEdited != nil && m.TopicEdited.Name != "":
		o.topic, o.named = key, m.TopicEdited.Name
	case m.implicitReply() && m.ReplyTo.TopicCreated.Name != "" && n.topics.names(key).now == "":
		// The message that founded the topic keeps the first name for ever; a name learned otherwise is newer.
		o.topic, o.named = key, m.ReplyTo.TopicCreated.Name
	}
	return o
}

// rosterChange returns a change about one user. The bot's own arrival or departure concerns everybody.
func (n normaliser) rosterChange(chat int64, u tgbotapi.User) platforms.RosterChange {
	c := platforms.RosterChange{Chat: chatID(chat), User: userID(u.ID)}
	if u.ID == n.me.id || u.ID == 0 {
		c.User = ""
	}
	return c
}

// source returns the author of m, and the place. Chat types and threads are those of the gateway's own adapter, because
// they make up the session key.
func (n normaliser) source(m *message, o reading) relay.Source {
	s := relay.Source{
		Platform: n.bot.Platform,
		ChatID:   chatID(m.Chat.ID),
		ChatType: m.Chat.kind(),
		ChatName: m.Chat.name(),
	}
	switch {
	case m.From != nil:
		s.UserID, s.UserName, s.UserHandle = userID(m.From.ID), nameOf(*m.From), m.From.UserName
	case m.SenderChat != nil:
		s.UserID, s.UserName, s.UserHandle = userID(m.SenderChat.ID), m.SenderChat.name(), m.SenderChat.Username
	default:
		s.UserID, s.UserName, s.UserHandle = userID(m.Chat.ID), m.Chat.name(), m.Chat.Username
	}
	s.UserDisplayName = s.UserName

	if s.ThreadID = threadIn(m); s.ThreadID != "" && m.ThreadID != 0 {
		s.ChatTopic = cmp.Or(n.topics.names(topicKey{m.Chat.ID, m.ThreadID}).now, o.named)
	}
	return s
}

// threadIn returns the topic of m; empty: none.
func threadIn(m *message) relay.ThreadID {
	kind := m.Chat.kind()
	topic := m.IsTopic && kind != relay.ChatChannel || m.Chat.IsForum && kind == relay.ChatGroup
	switch {
	case topic && m.ThreadID != 0:
		return relay.ThreadID(strconv.FormatInt(m.ThreadID, 10))
	case topic && m.Chat.IsForum:
		return generalTopic
	}
	return ""
}

// reply fills in the message to which m replies.
func (n normaliser) reply(m *message, ev *relay.Event) {
	switch r := m.ReplyTo; {
	case m.implicitReply():
	case r != nil:
		q := &relay.Quote{Text: r.body()}
		switch {
		case r.From != nil:
			q.Author = nameOf(*r.From)
			q.IsOwn = r.From.ID == n.me.id
		case r.SenderChat != nil:
			q.Author = r.SenderChat.name()
		}
		ev.ReplyToMessageID, ev.ReplyTo = messageID(r.ID), q
	case m.ExternalReply != nil:
		q := &relay.Quote{Author: m.ExternalReply.Origin.SenderUserName}
		switch o := m.ExternalReply.Origin; {
		case o.SenderUser != nil:
			q.Author = nameOf(*o.SenderUser)
			q.IsOwn = o.SenderUser.ID == n.me.id
		case o.SenderChat != nil:
			q.Author = o.SenderChat.name()
		case o.Chat != nil:
			q.Author = o.Chat.name()
		}
		ev.ReplyTo = q
	}
	if ev.ReplyTo != nil && m.Quote != nil && m.Quote.Text != "" {
		ev.ReplyTo.Text = m.Quote.Text // the part of the message that the person selected
	}
}

// implicitReply reports whether m answers only the message that founded its topic, as Telegram marks every message in a
// topic.
func (m *message) implicitReply() bool { return m.ReplyTo != nil && m.ReplyTo.TopicCreated != nil }

// body returns the text that a person wrote: the message's, or a file's caption.
func (m *message) body() string {
	if m.Text == "" && m.Caption == "" && m.Rich != nil {
		return m.Rich.text
	}
	return cmp.Or(m.Text, m.Caption)
}

// entities returns the entities of body.
func (m *message) entities() []tgbotapi.MessageEntity {
	switch {
	case m.Text != "":
		return m.Entities
	case m.Caption != "" || m.Rich == nil:
		return m.CaptionEntities
	}
	return m.Rich.entities
}

func (c chat) kind() relay.ChatType {
	switch c.Type {
	case "group", "supergroup":
		return relay.ChatGroup
	case "channel":
		return relay.ChatChannel
	}
	return relay.ChatDM
}

func (c chat) name() string { return cmp.Or(c.Title, fullName(c.FirstName, c.LastName, c.Username)) }

func nameOf(u tgbotapi.User) string { return fullName(u.FirstName, u.LastName, u.UserName) }

// fullName returns a person's name as Telegram shows it; a deleted account may have neither a name nor a handle.
func fullName(first, last, handle string) string {
	return cmp.Or(strings.TrimSpace(first+" "+last), handle)
}

// content returns the main type of a message, and its text. ok is false for service messages. The order is that of the
// gateway's own adapter: an animation, which comes with a document for old clients, is a video.
func content(m *message) (kind relay.MessageType, text string, ok bool) {
	text = m.body()
	switch {
	case m.Sticker != nil:
		return relay.TypeSticker, m.Sticker.Emoji, true
	case m.Photo != nil:
		return relay.TypePhoto, text, true
	case m.Video != nil, m.VideoNote != nil, m.Animation != nil:
		return relay.TypeVideo, text, true
	case m.Audio != nil:
		return relay.TypeAudio, text, true
	case m.Voice != nil:
		return relay.TypeVoice, text, true
	case m.Document != nil:
		return relay.TypeDocument, text, true
	case m.Venue != nil:
		return relay.TypeLocation, pin(m.Venue.Location, m.Venue.Title, m.Venue.Address), true
	case m.Location != nil:
		return relay.TypeLocation, pin(*m.Location, "", ""), true
	case text != "":
		return relay.TypeText, text, true
	}
	text = describe(m)
	return relay.TypeText, text, text != ""
}

// pin puts a location into words, as the gateway's own adapter does.
func pin(l tgbotapi.Location, title, address string) string {
	lat, lon := degrees(l.Latitude), degrees(l.Longitude)
	lines := []string{"[The user shared a location pin.]"}
	if title != "" {
		lines = append(lines, "Venue: "+title)
	}
	if address != "" {
		lines = append(lines, "Address: "+address)
	}
	lines = append(lines,
		"latitude: "+lat,
		"longitude: "+lon,
		"Map: https://www.google.com/maps/search/?api=1&query="+lat+","+lon,
		"If it is not clear what the place is for, ask.",
	)
	return strings.Join(lines, "\n")
}

func degrees(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// describe puts a message without text into a few words; none for a service message.
func describe(m *message) string {
	switch {
	case m.Contact != nil:
		return "[Contact: " + strings.TrimSpace(fullName(m.Contact.FirstName, m.Contact.LastName, "")+" "+m.Contact.PhoneNumber) + "]"
	case m.Dice != nil:
		return "[" + m.Dice.Emoji + " " + strconv.Itoa(m.Dice.Value) + "]"
	case m.Poll != nil:
		lines := []string{"[Poll: " + m.Poll.Question + "]"}
		for _, o := range m.Poll.Options {
			lines = append(lines, "- "+o.Text)
		}
		return strings.Join(lines, "\n")
	case m.Game != nil:
		return "[Game: " + m.Game.Title + "]"
	case m.Checklist != nil:
		return "[Checklist: " + m.Checklist.Title + "]"
	case m.Story != nil:
		return "[Story]"
	case m.PaidMedia != nil:
		return "[Paid media]"
	}
	return ""
}
