package wire

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// sourceJSON is a source as gateways of every age read it. The keys without omitempty are
// always there; null says that there is nothing to say.
type sourceJSON struct {
	Platform        relay.PlatformID `json:"platform"`
	ChatID          relay.ChatID     `json:"chat_id"`
	ChatType        relay.ChatType   `json:"chat_type"`
	ChatName        *string          `json:"chat_name"`
	UserID          *relay.UserID    `json:"user_id"`
	UserName        *string          `json:"user_name"`
	ThreadID        *relay.ThreadID  `json:"thread_id"`
	ChatTopic       *string          `json:"chat_topic"`
	UserDisplayName string           `json:"user_display_name,omitempty"`
	UserHandle      string           `json:"user_handle,omitempty"`
	UserIDAlt       relay.UserID     `json:"user_id_alt,omitempty"`
	ChatIDAlt       relay.ChatID     `json:"chat_id_alt,omitempty"`
	// June gateways read only the first of these two, later ones only the second.
	GuildID               relay.ScopeID   `json:"guild_id,omitempty"`
	ScopeID               relay.ScopeID   `json:"scope_id,omitempty"`
	ParentChatID          relay.ChatID    `json:"parent_chat_id,omitempty"`
	MessageID             relay.MessageID `json:"message_id,omitempty"`
	Profile               string          `json:"profile,omitempty"`
	AutoThreadCreated     bool            `json:"auto_thread_created,omitempty"`
	AutoThreadInitialName string          `json:"auto_thread_initial_name,omitempty"`
}

// encodeSource writes the defaults that a gateway would assume, so that gateways of all versions have the same ones.
func encodeSource(s relay.Source) sourceJSON {
	return sourceJSON{
		Platform: cmp.Or(s.Platform, relay.RelayPlatform), ChatID: s.ChatID, ChatType: cmp.Or(s.ChatType, relay.ChatDM),
		ChatName: orNull(s.ChatName), UserID: orNull(s.UserID), UserName: orNull(s.UserName), ThreadID: orNull(s.ThreadID),
		ChatTopic: orNull(s.ChatTopic), UserDisplayName: s.UserDisplayName, UserHandle: s.UserHandle,
		UserIDAlt: s.UserIDAlt, ChatIDAlt: s.ChatIDAlt, GuildID: s.Scope, ScopeID: s.Scope,
		ParentChatID: s.ParentChatID, MessageID: s.MessageID, Profile: s.Profile,
		AutoThreadCreated: s.AutoThreadCreated, AutoThreadInitialName: s.AutoThreadInitialName,
	}
}

func (s sourceJSON) source() relay.Source {
	return relay.Source{
		Platform: cmp.Or(s.Platform, relay.RelayPlatform), ChatID: s.ChatID, ChatType: cmp.Or(s.ChatType, relay.ChatDM),
		ChatName: orEmpty(s.ChatName), ChatTopic: orEmpty(s.ChatTopic), UserID: orEmpty(s.UserID),
		UserName: orEmpty(s.UserName), UserDisplayName: s.UserDisplayName, UserHandle: s.UserHandle,
		ThreadID: orEmpty(s.ThreadID), UserIDAlt: s.UserIDAlt, ChatIDAlt: s.ChatIDAlt,
		Scope: cmp.Or(s.ScopeID, s.GuildID), ParentChatID: s.ParentChatID, MessageID: s.MessageID, Profile: s.Profile,
		AutoThreadCreated: s.AutoThreadCreated, AutoThreadInitialName: s.AutoThreadInitialName,
	}
}

// orNull renders an empty value as null: the key is always there, the value is not.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

// orEmpty is the inverse of orNull.
func orEmpty[T ~string](s *T) (out T) {
	if s != nil {
		out = *s
	}
	return out
}
