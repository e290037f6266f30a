package mcp

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
)

// What people wrote is data. Answers contain it only in members called text and content, and in the preview of a
// conversation, with the tags of channels escaped; the names of people, chats and the like are made labels. Each answer
// has two forms: structuredContent for OpenClaw's clients, and a text for Hermes' clients.

// untrusted is a remark that every event carries.
const untrusted = "untrusted"

// maxLabel is how many characters a label has at most, and maxPreview a preview. maxAnswer is how many bytes of
// people's text an answer with several messages has at most, their quotes and earlier lines included.
const (
	maxLabel   = 80
	maxPreview = 200
	maxAnswer  = 256 << 10
)

// channelTag matches the beginning or the end of the tag that Claude Code puts around text from a channel.
var channelTag = regexp.MustCompile(`(?i)<(\s*/?\s*channel)`)

// prose returns people's text with the tags of channels escaped.
func prose(s string) string { return channelTag.ReplaceAllString(s, "&lt;$1") }

// label returns a name in a form that is safe in a tag's attribute: one line of at most maxLabel printing characters,
// without quotes and brackets.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"'`<>()[]{}\u2018\u2019\u201c\u201d", r) {
			return -1
		}
		return r
	}, relay.Shown(s))
	if utf8.RuneCountInString(s) > maxLabel {
		s = string([]rune(s)[:maxLabel])
	}
	return strings.TrimSpace(s)
}

// nameOf returns a person's name.
func nameOf(src relay.Source) string {
	for _, name := range []string{src.UserDisplayName, src.UserName, src.UserHandle} {
		if name = label(name); name != "" {
			return name
		}
	}
	return ""
}

// titleOf returns the title of a conversation.
func titleOf(src relay.Source) string {
	if src.ChatType == relay.ChatDM {
		return nameOf(src)
	}
	return label(src.ChatName)
}

// conversation is a conversation for OpenClaw's clients.
type conversation struct {
	SessionKey         string `json:"sessionKey"`
	Channel            string `json:"channel"`
	To                 string `json:"to"`
	AccountID          string `json:"accountId,omitempty"`
	ThreadID           string `json:"threadId,omitempty"`
	DisplayName        string `json:"displayName,omitempty"`
	DerivedTitle       string `json:"derivedTitle,omitempty"`
	LastMessagePreview string `json:"lastMessagePreview,omitempty"`
	UpdatedAt          int64  `json:"updatedAt"` // ms
}

// hermesConversation is a conversation for Hermes' clients.
type hermesConversation struct {
	SessionKey  string `json:"session_key"`
	SessionID   string `json:"session_id"`
	Platform    string `json:"platform"`
	ChatType    string `json:"chat_type"`
	DisplayName string `json:"display_name"`
	ChatName    string `json:"chat_name"`
	UserName    string `json:"user_name"`
	UpdatedAt   string `json:"updated_at"`
}

// account returns the bot that the gateway speaks through on a platform.
func (s *Server) account(p relay.PlatformID) string {
	for _, b := range s.o.Credential.Identities {
		if b.Platform == p {
			return string(b.ID)
		}
	}
	return ""
}

func (s *Server) conversation(c spool.Chat) conversation {
	return conversation{
		SessionKey: c.Key, Channel: string(c.Source.Platform), To: string(c.Source.ChatID), AccountID: s.account(c.Source.Platform),
		ThreadID: string(c.Source.ThreadID), DisplayName: titleOf(c.Source), UpdatedAt: c.At.UnixMilli(),
	}
}

func forHermes(c spool.Chat) hermesConversation {
	return hermesConversation{
		SessionKey: c.Key, SessionID: c.Key, Platform: string(c.Source.Platform), ChatType: string(c.Source.ChatType),
		DisplayName: titleOf(c.Source), ChatName: label(c.Source.ChatName), UserName: nameOf(c.Source), UpdatedAt: stamp(c.At),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// attachment is a file of a message.
type attachment struct {
	Path   string `json:"path"`
	Mime   string `json:"mime"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Error  string `json:"error,omitempty"`
}

func (s *Server) attachments(sp *spool.Spool, e *spool.Entry) (all []attachment) {
	for _, f := range e.Files {
		a := attachment{Mime: label(f.Mime), Size: f.Size, SHA256: f.SHA256}
		if f.Name == "" {
			a.Error = "the file is not here: it could not be fetched, or is no longer kept"
		} else {
			a.Path = sp.FilePath(f.Name)
		}
		all = append(all, a)
	}
	return all
}

// quote is the message to which another one replies.
type quote struct {
	Text   string `json:"text,omitempty"`
	Author string `json:"author,omitempty"`
	Own    bool   `json:"own,omitempty"` // the bot's
}

// said is an earlier line of the conversation, which comes with a message as its context.
type said struct {
	Text string `json:"text"`
	User string `json:"user,omitempty"`
}

// beside is what an event or a message carries beside its text.
type beside struct {
	User        *user        `json:"user,omitempty"`
	Quote       *quote       `json:"quote,omitempty"`
	Context     []said       `json:"context,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	Trust       string       `json:"trust"`
}

// size returns how many bytes of people's text b has.
func (b *beside) size() (n int) {
	if b == nil {
		return 0
	}
	if b.Quote != nil {
		n = len(b.Quote.Text)
	}
	for _, l := range b.Context {
		n += len(l.Text)
	}
	return n
}

type user struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

func (s *Server) beside(sp *spool.Spool, e *spool.Entry) beside {
	b := beside{Attachments: s.attachments(sp, e), Trust: untrusted}
	if u := (user{string(e.Event.Source.UserID), nameOf(e.Event.Source)}); u != (user{}) {
		b.User = &u
	}
	if q := e.Event.ReplyTo; q != nil {
		b.Quote = &quote{prose(q.Text), label(q.Author), q.IsOwn}
	}
	for _, l := range e.Event.Context {
		b.Context = append(b.Context, said{prose(l.Text), label(l.UserName)})
	}
	return b
}

// event is an event for OpenClaw's clients.
type event struct {
	Cursor       spool.Cursor `json:"cursor"`
	Type         string       `json:"type"`
	SessionKey   string       `json:"sessionKey"`
	Conversation conversation `json:"conversation"`
	MessageID    string       `json:"messageId"`
	ReplyTo      string       `json:"replyTo,omitempty"`
	Role         string       `json:"role"`
	Text         string       `json:"text"`
	Timestamp    string       `json:"timestamp"`
	beside
}

// hermesEvent is an event for Hermes' clients.
type hermesEvent struct {
	Cursor     spool.Cursor `json:"cursor"`
	Type       string       `json:"type"`
	SessionKey string       `json:"session_key"`
	Role       string       `json:"role"`
	Content    string       `json:"content"`
	Timestamp  string       `json:"timestamp"`
	MessageID  string       `json:"message_id"`
	ReplyTo    string       `json:"reply_to,omitempty"`
	beside
}

// The roles of authors, and the only type of an event.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	typeMessage   = "message"
)

func (s *Server) events(sp *spool.Spool, e *spool.Entry) (event, hermesEvent) {
	c := spool.Chat{Key: e.Key, Source: e.Event.Source, At: e.At}
	b, words := s.beside(sp, e), prose(e.Event.Text)
	return event{
			e.Cursor, typeMessage, e.Key, s.conversation(c), string(e.Event.MessageID), string(e.Event.ReplyToMessageID),
			roleUser, words, stamp(e.At), b,
		}, hermesEvent{
			e.Cursor, typeMessage, e.Key, roleUser, words, stamp(e.At), string(e.Event.MessageID), string(e.Event.ReplyToMessageID), b,
		}
}

// message is a message of a conversation, for both kinds of clients.
type message struct {
	ID        string       `json:"id"`
	Role      string       `json:"role"`
	Content   string       `json:"content"`
	Timestamp string       `json:"timestamp"`
	Cursor    spool.Cursor `json:"cursor,omitempty"`
	*beside
}

func (s *Server) message(sp *spool.Spool, m spool.Message) message {
	if m.Entry == nil {
		return message{ID: string(m.Said.ID), Role: roleAssistant, Content: prose(m.Said.Text), Timestamp: stamp(m.Said.At)}
	}
	b := s.beside(sp, m.Entry)
	return message{string(m.Event.MessageID), roleUser, prose(m.Event.Text), stamp(m.At), m.Cursor, &b}
}

// preview returns the beginning of a message.
func preview(m message) string {
	s := []rune(relay.Shown(m.Content))
	return string(s[:min(len(s), maxPreview)])
}
