package wire

import "github.com/hermes-connector/hermes-connector/relay"

// formatHints carries two of the metadata's flags in an object of its own.
const formatHints = "format_hints"

// decodeMetadata reads the hints of every age. Nothing in it can be wrong: what does not fit
// was not said.
func decodeMetadata(o object) relay.Metadata {
	hints := o.sub(formatHints)
	m := relay.Metadata{
		Scope: scopeOf(o), UserID: relay.UserID(o.id("user_id")), Profile: o.id("profile"),
		ThreadID: relay.ThreadID(o.id("thread_id")), Notify: o.hint("notify"),
		ExpectEdits: o.hint("expect_edits"), NonConversational: o.hint("non_conversational"),
		ReplyToMessageID:      relay.MessageID(o.id("reply_to_message_id")),
		DMTopicReplyFallback:  o.hint("telegram_dm_topic_reply_fallback"),
		DMTopicCreatedForSend: o.hint("telegram_dm_topic_created_for_send"),
		DMTopicID:             relay.ThreadID(o.id("direct_messages_topic_id")),
		TelegramReplyTo:       relay.MessageID(o.id("telegram_reply_to_message_id")),
		MessageID:             relay.MessageID(o.id("message_id")),
		SlackTeamID:           o.id("slack_team_id"), SlackThreadTS: o.id("thread_ts"),
		SlackRecipientTeamID: o.id("recipient_team_id"), SlackRecipientUserID: o.id("recipient_user_id"),
		UnfurlLinks: o.tristate("unfurl_links"), UnfurlMedia: o.tristate("unfurl_media"),
		FormatRichBlocks: hints.hint("rich_blocks"), FormatMarkdownBlocks: hints.hint("markdown_blocks"),
	}
	if m.Profile == "" {
		m.Profile = o.id("hermes_profile") // the newest gateways' echo of it
	}
	return m
}

// members is a JSON object in the making, for what only a gateway writes.
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
	set(m, "profile", meta.Profile)
	set(m, "thread_id", meta.ThreadID)
	set(m, "notify", meta.Notify)
	set(m, "expect_edits", meta.ExpectEdits)
	set(m, "non_conversational", meta.NonConversational)
	set(m, "reply_to_message_id", meta.ReplyToMessageID)
	set(m, "telegram_dm_topic_reply_fallback", meta.DMTopicReplyFallback)
	set(m, "telegram_dm_topic_created_for_send", meta.DMTopicCreatedForSend)
	set(m, "direct_messages_topic_id", meta.DMTopicID)
	set(m, "telegram_reply_to_message_id", meta.TelegramReplyTo)
	set(m, "message_id", meta.MessageID)
	set(m, "slack_team_id", meta.SlackTeamID)
	set(m, "thread_ts", meta.SlackThreadTS)
	set(m, "recipient_team_id", meta.SlackRecipientTeamID)
	set(m, "recipient_user_id", meta.SlackRecipientUserID)
	set(m, "unfurl_links", meta.UnfurlLinks)
	set(m, "unfurl_media", meta.UnfurlMedia)
	hints := members{}
	set(hints, "rich_blocks", meta.FormatRichBlocks)
	set(hints, "markdown_blocks", meta.FormatMarkdownBlocks)
	if len(hints) > 0 {
		m[formatHints] = hints
	}
	return m
}
