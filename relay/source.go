package relay

// ChatType says what sort of place a chat is. It goes into the gateway's session key verbatim.
type ChatType string

// The chat types that a gateway knows. Discord guild channels and all Telegram groups, forums included, are ChatGroup,
// because the gateway's own adapters name them so.
const (
	ChatDM      ChatType = "dm"
	ChatGroup   ChatType = "group"
	ChatChannel ChatType = "channel"
	ChatThread  ChatType = "thread"
)

// Source says who acted, and where. Its discriminators (platform, chat, chat type, user, thread) keep sessions apart on
// the gateway.
type Source struct {
	Platform PlatformID `json:"platform"`
	ChatID   ChatID     `json:"chat"`
	ChatType ChatType   `json:"type"`
	ChatName string     `json:"chatName,omitempty"`
	// ChatTopic is the channel's topic or description, or a Telegram topic's name.
	ChatTopic string `json:"topic,omitempty"`
	UserID    UserID `json:"user,omitempty"`
	// UserName is the display name: gateways of June 2026 read no other name.
	UserName        string   `json:"userName,omitempty"`
	UserDisplayName string   `json:"display,omitempty"`
	UserHandle      string   `json:"handle,omitempty"`
	ThreadID        ThreadID `json:"thread,omitempty"`
	// UserIDAlt, if set, replaces UserID in the session key (Signal UUIDs and the like).
	UserIDAlt UserID `json:"userAlt,omitempty"`
	ChatIDAlt ChatID `json:"chatAlt,omitempty"`
	// Scope is sent as guild_id and as scope_id, for gateways of every age.
	Scope        ScopeID   `json:"scope,omitempty"`
	ParentChatID ChatID    `json:"parent,omitempty"`
	MessageID    MessageID `json:"msg,omitempty"`
	Profile      string    `json:"profile,omitempty"`
	// AutoThreadCreated and AutoThreadInitialName describe a thread the connector made for this event.
	AutoThreadCreated     bool   `json:"autoThread,omitempty"`
	AutoThreadInitialName string `json:"autoThreadName,omitempty"`
}

// Place returns the place of the source's chat, for grants.
func (s Source) Place() Place {
	return Place{Platform: s.Platform, Scope: s.Scope, Chat: s.ChatID, Parent: s.ParentChatID}
}
