package relay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ids are opaque strings. Only the platform folder that minted a ScopeID, ChatID,
// ThreadID, UserID, MessageID or EventID may look inside it.
type (
	// PlatformID names a chat network: "telegram", "discord", "loopback".
	PlatformID string
	// BotID is a bot account's own id on its platform.
	BotID string
	// ScopeID is the platform's container of chats (a Discord guild). Telegram has none: empty.
	ScopeID string
	// ChatID is one chat on a platform; it is unique within the platform.
	ChatID string
	// ThreadID is a thread or forum topic inside a chat; empty outside threads.
	ThreadID string
	// UserID is a person's (or bot's) id on a platform.
	UserID string
	// MessageID is a message's id, unique within its chat.
	MessageID string
	// EventID identifies one event of one bot for ever. The store keeps it for some days as the mark that the event was
	// seen.
	EventID string

	// TenantID is an isolation domain.
	TenantID string
	// InstanceID is one agent, the unit of delivery and of buffering.
	InstanceID string
	// GatewayID names a credential that serves an instance. By default it equals the instance id.
	GatewayID string

	// SessionKey is the gateway's own name for a conversation; see relay/sessionkey.
	SessionKey string
	// RequestID correlates an outbound frame with its result; minted by the gateway.
	RequestID string
)

// DefaultTenant is the tenant of a homelab that never names one.
const DefaultTenant TenantID = "home"

// Bot is one hosted account: a platform and the account's id on it.
type Bot struct {
	Platform PlatformID `json:"p"`
	ID       BotID      `json:"b"`
}

// String renders the bot as "platform:id", for logs and messages.
func (b Bot) String() string { return string(b.Platform) + ":" + string(b.ID) }

// Chat is a chat as one bot sees it.
type Chat struct {
	Bot Bot
	ID  ChatID
}

// Reaction is one reaction of a bot, as its network identifies it.
type Reaction struct {
	Chat    Chat
	Message MessageID
	Name    string // empty on a network where a bot has at most one reaction on a message
}

// Place locates a chat for grants: the chat's scope, the chat, and the chat of which it is a thread.
type Place struct {
	Platform PlatformID
	Scope    ScopeID
	Chat     ChatID
	Parent   ChatID // empty unless Chat is a thread with an id of its own
}

// BufferID is a delivery's name on the wire: "<epoch>-<sequence>". The epoch is random at the
// lane's creation, so that an id never comes back with another meaning, even after a restore.
type BufferID struct {
	Epoch uint64
	Seq   uint64
}

// IsZero reports whether the id names nothing.
func (b BufferID) IsZero() bool { return b == BufferID{} }

// String renders the id as it is sent.
func (b BufferID) String() string {
	return strconv.FormatUint(b.Epoch, 16) + "-" + strconv.FormatUint(b.Seq, 10)
}

// ParseBufferID returns the id that String renders as s, and an error for any other text.
func ParseBufferID(s string) (BufferID, error) {
	epoch, seq, _ := strings.Cut(s, "-")
	var id BufferID
	id.Epoch, _ = strconv.ParseUint(epoch, 16, 64)
	id.Seq, _ = strconv.ParseUint(seq, 10, 64)
	if id.String() != s {
		return BufferID{}, fmt.Errorf("buffer id %q: want <epoch>-<sequence>", s)
	}
	return id, nil
}

// Unshown reports whether r is not allowed in an id or a name: r is a blank, a control character, or a character that
// changes how others are shown.
func Unshown(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// MaxName bounds the names an operator or a gateway chooses, in bytes.
const MaxName = 128

// CheckName reports why s cannot name a gateway, instance or tenant. A name is 1 to MaxName
// bytes of valid UTF-8 without blanks, control characters or '/', and is neither an option nor a path. Colons are
// allowed: the gateway's own default names contain host names.
func CheckName(s string) error {
	switch {
	case s == "":
		return errors.New("name is empty")
	case len(s) > MaxName:
		return fmt.Errorf("name is longer than %d bytes", MaxName)
	case !utf8.ValidString(s):
		return errors.New("name is not valid UTF-8")
	case strings.HasPrefix(s, "-"):
		return errors.New("name begins with '-'")
	case s == "." || s == "..":
		return errors.New("name is a folder's")
	}
	for _, r := range s {
		if r == '/' || Unshown(r) {
			return fmt.Errorf("name contains %q", r)
		}
	}
	return nil
}
