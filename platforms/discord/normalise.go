package discord

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	errWithoutChannel = errors.New("something without a channel's id")
	errWithoutID      = errors.New("something without an id")
	errWithoutAuthor  = errors.New("something without a user's id")
)

// normaliser turns Discord's messages and interactions into events. Its methods are pure functions of its fields and
// their arguments.
type normaliser struct {
	bot relay.Bot
	me  guilds.ID
	// passthrough: interactions go to gateways as forwards.
	passthrough bool
	cdn         string // keyCDN, the server of stickers; empty: Discord's
}

// spot is the place of an event, as far as it is known: the channel always, the parent of a thread and the guild
// perhaps.
type spot struct {
	guild   guilds.Guild
	channel guilds.Channel
	parent  guilds.Channel
}

// author is the person who caused an event.
type author struct {
	user guilds.User
	nick string
}

// name returns the name that others see.
func (a author) name() string { return cmp.Or(a.nick, a.user.GlobalName, a.user.Username) }

// written reports whether a person, a bot or a web hook wrote m. It is false for a join, a pin, and the first line of a
// thread, which repeats a message of its parent. Of the answers to interactions it is true only for the bot's own. The
// error says which id m lacks.
func (n normaliser) written(m *messageData) (bool, error) {
	said := m.Type == discordgo.MessageTypeDefault || m.Type == discordgo.MessageTypeReply
	answer := m.Type == discordgo.MessageTypeChatInputCommand || m.Type == discordgo.MessageTypeContextMenuCommand
	switch {
	case m.ChannelID == 0:
		return false, errWithoutChannel
	case m.ID == 0:
		return false, errWithoutID
	case said && (m.Author == nil || m.Author.ID == 0):
		return false, errWithoutAuthor
	}
	return said || answer && m.Author != nil && m.Author.ID == n.me, nil
}

// fromMessage returns the event of m, written at the spot; nil if m becomes no event: in a group of direct messages, or
// as the copy at the beginning of a thread (echo).
func (n normaliser) fromMessage(m *messageData, at spot) *relay.Event {
	if at.channel.Kind == discordgo.ChannelTypeGroupDM || at.echo(m.ID) {
		return nil
	}
	ev := n.event(m.ID, at, author{user: *m.Author, nick: m.Member.Nick})
	ev.Traits.Own = m.Author.ID == n.me
	ev.Traits.AuthorIsBot = m.Author.Bot || m.WebhookID != 0
	ev.Traits.Forwarded = len(m.Snapshots) > 0
	if m.Type == discordgo.MessageTypeReply && m.Reference != nil && m.Reference.Type != discordgo.MessageReferenceTypeForward {
		ev.ReplyToMessageID = relay.MessageID(m.Reference.MessageID.String())
		ev.ReplyTo = n.quote(m.Referenced)
	}
	mentioned := slices.ContainsFunc(m.Mentions, func(u guilds.User) bool { return u.ID == n.me && n.me != 0 })
	ev.Traits.Addressed = mentioned || ev.ReplyTo != nil && ev.ReplyTo.IsOwn ||
		at.guild.Own != 0 && slices.Contains(m.MentionRoles, at.guild.Own)

	text := m.text()
	if mentioned {
		text = n.withoutMention(text)
	}
	if !ev.Traits.Own { // no gateway gets the bot's own messages
		ev.Attachments = n.attachments(m)
	}
	ev.Type, ev.Text = content(m, text, ev.Attachments)
	return &ev
}

// event returns an event at the spot, without its content.
func (n normaliser) event(id guilds.ID, at spot, who author) relay.Event {
	message := relay.MessageID(id.String())
	ev := relay.Event{
		ID:        eventID(at.channel.ID.String(), id.String()),
		Bot:       n.bot,
		At:        id.Time(),
		MessageID: message,
		Source: relay.Source{
			Platform:  n.bot.Platform,
			ChatID:    relay.ChatID(at.channel.ID.String()),
			ChatType:  relay.ChatGroup, // every channel of a guild is a group: the session key depends on it
			ChatName:  at.name(),
			ChatTopic: at.channel.Topic,
			UserID:    relay.UserID(who.user.ID.String()),
			UserName:  who.name(),
			Scope:     relay.ScopeID(at.channel.Guild.String()),
			MessageID: message,
		},
	}
	s := &ev.Source
	s.UserDisplayName, s.UserHandle = s.UserName, who.user.Username
	switch {
	case at.channel.IsThread():
		s.ChatType = relay.ChatThread
		s.ThreadID = relay.ThreadID(s.ChatID)
		s.ParentChatID = relay.ChatID(at.channel.Parent.String())
		if s.ChatTopic == "" && at.parent.HoldsPosts() {
			s.ChatTopic = at.parent.Topic
		}
	case at.channel.Kind == discordgo.ChannelTypeDM:
		s.ChatType = relay.ChatDM
		s.ChatName = who.user.Username
	}
	return ev
}

// echo reports whether a message only repeats the one with which its thread began; such a message has the thread's id.
// A post's first message has the thread's id as well, but repeats nothing. While the parent is unknown echo returns
// false: an event that comes twice is better than one that never comes.
func (at spot) echo(message guilds.ID) bool {
	return at.channel.IsThread() && message == at.channel.ID && at.parent.ID != 0 && !at.parent.HoldsPosts()
}

// name returns the name of the place, in the form that the gateway's own adapter uses.
func (at spot) name() string {
	name := cmp.Or(at.channel.Name, at.channel.ID.String())
	guild, parent := at.guild.Name, at.parent.Name
	switch {
	case !at.channel.IsThread():
		if guild != "" {
			return guild + " / #" + name
		}
	case parent != "" && guild == "":
		return parent + " / " + name
	case parent != "" && at.parent.HoldsPosts():
		return guild + " / " + parent + " / " + name
	case parent != "":
		return guild + " / #" + parent + " / " + name
	}
	return name
}

// quote returns m as the message to which an event replies; nil if m is nil, because that message is gone.
func (n normaliser) quote(m *messageData) *relay.Quote {
	if m == nil {
		return nil
	}
	q := &relay.Quote{Text: m.text()}
	if m.Author != nil {
		q.Author = author{user: *m.Author}.name()
		q.IsOwn = m.Author.ID == n.me && n.me != 0
	}
	return q
}

// withoutMention removes the bot's mentions from text.
func (n normaliser) withoutMention(text string) string {
	id := n.me.String()
	return strings.TrimSpace(strings.NewReplacer("<@"+id+">", "", "<@!"+id+">", "").Replace(text))
}

// eventID returns the id of a message's event. It contains the channel, because a thread and the message with which it
// began share an id.
func eventID(channel, message string) relay.EventID { return relay.EventID(channel + ":" + message) }

// MessageEvent implements platforms.MessageEventer.
func (p *Bot) MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return eventID(string(chat), string(message))
}

// noText is the text of a message without text, as in the gateway's own adapter.
const noText = "(The user sent a message with no text content)"

// text returns the text of m: its own, or else the texts of the messages forwarded with it.
func (m *messageData) text() string {
	if strings.TrimSpace(m.Content) != "" {
		return m.Content
	}
	var parts []string
	for _, s := range m.Snapshots {
		if text := strings.TrimSpace(s.Message.Content); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// content returns the main type of m, and its text: text with the names of the stickers that are no files, or, if text
// is blank, a description of the stickers and the poll. If m has neither these nor files, it is noText.
func content(m *messageData, text string, files []relay.Attachment) (relay.MessageType, string) {
	kind := relay.TypeText
	switch {
	case strings.HasPrefix(text, "/"):
		return relay.TypeCommand, text
	case len(files) > 0:
		kind = files[0].Kind
	case len(m.Stickers) > 0:
		kind = relay.TypeSticker
	}
	lines := describe(m)
	if strings.TrimSpace(text) != "" {
		return kind, strings.Join(append([]string{text}, unseen(m)...), "\n")
	}
	if len(lines) == 0 && len(files) == 0 {
		return kind, noText
	}
	return kind, strings.Join(lines, "\n")
}

// unseen returns a line for each sticker of m that is not among its files.
func unseen(m *messageData) (lines []string) {
	for _, s := range m.Stickers {
		if (normaliser{}).stickerFile(s) == "" {
			lines = append(lines, "[Sticker: "+s.Name+"]")
		}
	}
	return lines
}

// describe returns lines that name the stickers of m, and its poll with the answers.
func describe(m *messageData) (lines []string) {
	for _, s := range m.Stickers {
		lines = append(lines, "[Sticker: "+s.Name+"]")
	}
	if m.Poll != nil {
		lines = append(lines, "[Poll: "+m.Poll.Question.Text+"]")
		for _, a := range m.Poll.Answers {
			if a.Media != nil {
				lines = append(lines, "- "+a.Media.Text)
			}
		}
	}
	return lines
}
