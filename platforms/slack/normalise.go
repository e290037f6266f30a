package slack

import (
	"cmp"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// normaliser turns Slack's payloads into events. Its methods are pure functions of its fields and their arguments.
type normaliser struct {
	bot      relay.Bot
	self     self
	names    names
	commands *platforms.CommandNames
}

// self is the bot's own account, as Slack reports it.
type self struct {
	Team   string `json:"team,omitempty"`   // the workspace
	User   string `json:"user,omitempty"`   // the bot's own user id
	Bot    string `json:"bot,omitempty"`    // the bot's id as an integration
	Handle string `json:"handle,omitempty"` // its name, without "@"
}

// names looks up the names that belong to ids.
type names interface {
	person(id string) person
	channel(id string) place
}

// person has a person's name; empty: not known.
type person struct {
	name, handle string
	bot          bool
}

// place has a channel's name and topic.
type place struct{ name, topic string }

// noText is the text of an event without text, as on other networks.
const noText = "(The user sent a message with no text content)"

// direct reports whether a channel's id is that of direct messages. Messages come only from those of a person with the
// bot; a slash command may come from those of two people.
func direct(channel string) bool { return strings.HasPrefix(channel, "D") }

func (n normaliser) reading() reading {
	return reading{
		me:      n.self.User,
		person:  func(id string) string { return n.names.person(id).name },
		channel: func(id string) string { return strings.TrimPrefix(n.names.channel(id).name, "#") },
	}
}

// own reports whether the bot itself wrote m.
func (n normaliser) own(m *messageData) bool {
	return m.User != "" && m.User == n.self.User || m.BotID != "" && m.BotID == n.self.Bot ||
		m.BotProfile.App != "" && m.BotProfile.App == string(n.bot.ID)
}

// mentioned reports whether m mentions the bot.
func (n normaliser) mentioned(m *messageData) bool {
	return n.reading().mentions(m.Text) || m.Text == "" && mentionedIn(m.Blocks, n.self.User, maxDepth)
}

func mentionedIn(blocks []blockData, me string, depth int) bool {
	if depth == 0 || me == "" {
		return false
	}
	for _, b := range blocks {
		if b.Type == "user" && b.UserID == me || mentionedIn(b.Elements, me, depth-1) {
			return true
		}
	}
	return false
}

// message returns the event of m. talked: the bot takes part in m's thread, as far as it remembers.
func (n normaliser) message(m *messageData, talked bool) relay.Event {
	at, _ := timeOf(m.TS)
	ev := n.event(m.Channel, relay.MessageID(m.TS), m.thread(), n.author(m))
	ev.ID, ev.At = eventID(m.Channel, m.TS), at
	ev.Traits.Own = n.own(m)
	ev.Traits.AuthorIsBot = m.BotID != "" || m.Subtype == "bot_message" || n.names.person(m.User).bot
	ev.Traits.Addressed = n.mentioned(m) || talked || m.thread() != "" && m.RootAuthor != "" && m.RootAuthor == n.self.User
	text := strings.TrimSpace(n.said(m))
	for _, a := range m.Attachments {
		ev.Traits.Forwarded = ev.Traits.Forwarded || a.passedOn()
	}
	if !ev.Traits.Own {
		ev.Attachments = filesOf(m)
	}
	ev.Type = relay.TypeText
	if len(ev.Attachments) > 0 {
		ev.Type = ev.Attachments[0].Kind
	}
	if !ev.Traits.Forwarded || strings.TrimSpace(m.Text) != "" {
		text, _ = n.commands.Slashed(text)
	}
	switch {
	case strings.HasPrefix(text, "/"):
		ev.Type = relay.TypeCommand
	case text == "" && len(ev.Attachments) == 0:
		text = noText
	}
	ev.Text = text
	return ev
}

// said returns the text of m, and behind it that of forwarded messages.
func (n normaliser) said(m *messageData) string {
	r := n.reading()
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, text)
		}
	}
	if strings.TrimSpace(m.Text) != "" {
		add(r.plain(m.Text))
	} else {
		add(r.rich(m.Blocks))
	}
	for _, a := range m.Attachments {
		if !a.passedOn() {
			continue
		}
		text := strings.TrimSpace(r.plain(cmp.Or(a.Text, a.Fallback)))
		if text != "" && a.Author != "" {
			text = a.Author + ": " + text
		}
		if text != "" {
			add("> " + strings.ReplaceAll(text, "\n", "\n> "))
		}
	}
	return strings.Join(parts, "\n")
}

// author returns the author of m.
func (n normaliser) author(m *messageData) relay.Source {
	s := relay.Source{UserID: relay.UserID(cmp.Or(m.User, m.BotID))}
	who := n.names.person(m.User)
	s.UserName = cmp.Or(who.name, m.BotProfile.Name, m.Username, string(s.UserID))
	s.UserHandle = who.handle
	return s
}

// event returns an event in a channel, without its content. by has the event's author.
func (n normaliser) event(channel string, message relay.MessageID, thread string, by relay.Source) relay.Event {
	s := by
	at := n.names.channel(channel)
	s.Platform, s.ChatID, s.ChatType = n.bot.Platform, relay.ChatID(channel), relay.ChatGroup
	s.ChatName, s.ChatTopic = cmp.Or(at.name, channel), at.topic
	s.UserDisplayName = s.UserName
	s.ThreadID = relay.ThreadID(thread)
	s.Scope, s.MessageID = relay.ScopeID(n.self.Team), message
	if direct(channel) {
		s.ChatType, s.ChatName, s.ChatTopic = relay.ChatDM, cmp.Or(s.UserHandle, s.UserName), ""
	}
	return relay.Event{Bot: n.bot, MessageID: message, Source: s}
}

// eventID returns an id that is unique among the bot's events. A timestamp alone is unique only within its channel.
func eventID(channel, ts string) relay.EventID { return relay.EventID(channel + ":" + ts) }
