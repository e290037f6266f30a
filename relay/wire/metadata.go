package wire

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/relay"
)

// decodeMetadata reads those hints that some code uses, of all gateway versions. It never fails: a hint that does not
// fit counts as absent.
func decodeMetadata(o object) relay.Metadata {
	return relay.Metadata{
		Scope:  relay.ScopeID(cmp.Or(o.id("scope_id"), o.id("guild_id"))),
		UserID: relay.UserID(o.id("user_id")), ThreadID: relay.ThreadID(o.id("thread_id")),
		Notify: o.hint("notify"), NonConversational: o.hint("non_conversational"),
		ReplyToMessageID:     relay.MessageID(o.id("reply_to_message_id")),
		DMTopicReplyFallback: o.hint("telegram_dm_topic_reply_fallback"),
		DMTopicID:            relay.ThreadID(o.id("direct_messages_topic_id")),
		TelegramReplyTo:      relay.MessageID(o.id("telegram_reply_to_message_id")),
		Profile:              profile(o),
	}
}

// maxProfile is how long the name of a profile may be, in bytes.
const maxProfile = 64

// profile reads the name of the profile that acts, if it is valid.
func profile(o object) string {
	name, ok := shortOf(o["profile"], maxProfile)
	if !ok || strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return ""
	}
	return name
}

// members is a JSON object in the making, for frames that only a gateway writes.
type members map[string]any

// set adds a member unless it is empty.
func set[T comparable](m members, key string, v T) {
	var zero T
	if v != zero {
		m[key] = v
	}
}

// encodeMetadata writes the keys of the newest gateways.
func encodeMetadata(meta relay.Metadata) members {
	m := members{}
	set(m, "scope_id", meta.Scope)
	set(m, "user_id", meta.UserID)
	set(m, "thread_id", meta.ThreadID)
	set(m, "notify", meta.Notify)
	set(m, "non_conversational", meta.NonConversational)
	set(m, "reply_to_message_id", meta.ReplyToMessageID)
	set(m, "telegram_dm_topic_reply_fallback", meta.DMTopicReplyFallback)
	set(m, "direct_messages_topic_id", meta.DMTopicID)
	set(m, "telegram_reply_to_message_id", meta.TelegramReplyTo)
	set(m, "profile", meta.Profile)
	return m
}
