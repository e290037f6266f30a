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

// encodeSource writes the defaults a gateway would assume, so that every age assumes the same.
func encodeSource(s relay.Source) sourceJSON {
	return sourceJSON{
		Platform: cmp.Or(s.Platform, relay.RelayPlatform), ChatID: s.ChatID, ChatType: cmp.Or(s.ChatType, relay.ChatDM), ChatName: orNull(s.ChatName),
		UserID: orNull(s.UserID), UserName: orNull(s.UserName), ThreadID: orNull(s.ThreadID),
		ChatTopic: orNull(s.ChatTopic), UserDisplayName: s.UserDisplayName, UserHandle: s.UserHandle,
		UserIDAlt: s.UserIDAlt, ChatIDAlt: s.ChatIDAlt, GuildID: s.Scope, ScopeID: s.Scope,
		ParentChatID: s.ParentChatID, MessageID: s.MessageID, Profile: s.Profile,
		AutoThreadCreated: s.AutoThreadCreated, AutoThreadInitialName: s.AutoThreadInitialName,
	}
}

func decodeSource(o object) relay.Source {
	return relay.Source{
		Platform: cmp.Or(relay.PlatformID(o.id("platform")), relay.RelayPlatform), ChatID: relay.ChatID(o.id("chat_id")),
		ChatType: cmp.Or(relay.ChatType(o.words("chat_type")), relay.ChatDM), ChatName: o.words("chat_name"),
		ChatTopic: o.words("chat_topic"), UserID: relay.UserID(o.id("user_id")),
		UserName: o.words("user_name"), UserDisplayName: o.words("user_display_name"),
		UserHandle: o.words("user_handle"), ThreadID: relay.ThreadID(o.id("thread_id")),
		UserIDAlt: relay.UserID(o.id("user_id_alt")), ChatIDAlt: relay.ChatID(o.id("chat_id_alt")),
		Scope: scopeOf(o), ParentChatID: relay.ChatID(o.id("parent_chat_id")),
		MessageID: relay.MessageID(o.id("message_id")), Profile: o.words("profile"),
		AutoThreadCreated: o.hint("auto_thread_created"), AutoThreadInitialName: o.words("auto_thread_initial_name"),
	}
}

// scopeOf reads the scope under its new name or its old one.
func scopeOf(o object) relay.ScopeID {
	return relay.ScopeID(cmp.Or(o.id("scope_id"), o.id("guild_id")))
}
