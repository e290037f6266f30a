package discord

import (
	"encoding/json"
	"time"
)

// The parts of Discord's objects that are read from events, spelled as on
// https://docs.discord.com/developers. The library's own types are not used for that: they refuse a
// whole message for one component they do not know, and hold all of a guild's members and emojis.

// The types of channels that matter here.
const (
	channelText          = 0
	channelDM            = 1
	channelVoice         = 2
	channelGroupDM       = 3
	channelCategory      = 4
	channelNewsThread    = 10
	channelPublicThread  = 11
	channelPrivateThread = 12
	channelStage         = 13
	channelForum         = 15
	channelMedia         = 16
)

// flagObfuscated marks a channel the bot cannot see: Discord tells its place, and nothing true
// besides (https://docs.discord.com/developers/change-log, August 12, 2026).
const flagObfuscated = 1 << 17

// overwriteMember is the type of an overwrite for one member; others are for a role.
const overwriteMember = 1

// The types of messages a person (or the bot, answering an interaction) writes.
const (
	messageDefault     = 0
	messageReply       = 19
	messageSlash       = 20
	messageContextMenu = 23
)

// flagVoice marks a voice message.
const flagVoice = 1 << 13

// referenceForward is the type of a reference to a message that was forwarded.
const referenceForward = 1

// The types of interactions.
const (
	interactionCommand   = 2
	interactionComponent = 3
	interactionModal     = 5
)

// contextPrivate is a direct or group chat of other people, in which the bot is not.
const contextPrivate = 2

// The types of application commands.
const (
	commandUser    = 2
	commandMessage = 3
)

// The types of options that only group others.
const (
	optionSubCommand      = 1
	optionSubCommandGroup = 2
)

type guildData struct {
	ID          snowflake     `json:"id"`
	Name        string        `json:"name"`
	OwnerID     snowflake     `json:"owner_id"`
	Unavailable bool          `json:"unavailable"`
	Roles       []roleData    `json:"roles"`
	Channels    []channelData `json:"channels"` // in GUILD_CREATE only
	Threads     []channelData `json:"threads"`  // in GUILD_CREATE only
}

type roleData struct {
	ID          snowflake `json:"id"`
	Permissions bits      `json:"permissions"`
	Tags        struct {
		BotID snowflake `json:"bot_id"`
	} `json:"tags"`
}

type channelData struct {
	ID         snowflake       `json:"id"`
	GuildID    snowflake       `json:"guild_id"`
	ParentID   snowflake       `json:"parent_id"`
	Type       int             `json:"type"`
	Flags      int64           `json:"flags"`
	Name       string          `json:"name"`
	Topic      string          `json:"topic"`
	Overwrites []overwriteData `json:"permission_overwrites"`
	Recipients []userData      `json:"recipients"`
	Thread     struct {
		Archived bool `json:"archived"`
	} `json:"thread_metadata"`
}

type overwriteData struct {
	ID    snowflake `json:"id"`
	Type  int       `json:"type"` // overwriteMember, or of a role
	Allow bits      `json:"allow"`
	Deny  bits      `json:"deny"`
}

type userData struct {
	ID         snowflake `json:"id"`
	Username   string    `json:"username"`
	GlobalName string    `json:"global_name"`
	Bot        bool      `json:"bot"`
}

type memberData struct {
	Roles      []snowflake `json:"roles"`
	MutedUntil time.Time   `json:"communication_disabled_until"`
}

type messageData struct {
	ID           snowflake        `json:"id"`
	ChannelID    snowflake        `json:"channel_id"`
	GuildID      snowflake        `json:"guild_id"`
	ChannelType  *int             `json:"channel_type"`
	Type         int              `json:"type"`
	Flags        int64            `json:"flags"`
	Author       *userData        `json:"author"`
	Member       nickData         `json:"member"` // of the author; empty in what REST answers
	WebhookID    snowflake        `json:"webhook_id"`
	Content      string           `json:"content"`
	Mentions     []userData       `json:"mentions"`
	MentionRoles []snowflake      `json:"mention_roles"`
	Attachments  []attachmentData `json:"attachments"`
	Stickers     []namedData      `json:"sticker_items"`
	Poll         *pollData        `json:"poll"`
	Reference    *struct {
		Type      int       `json:"type"`
		MessageID snowflake `json:"message_id"`
	} `json:"message_reference"`
	Referenced *messageData `json:"referenced_message"`
	Snapshots  []struct {
		Message messageData `json:"message"`
	} `json:"message_snapshots"`
	Components []componentData `json:"components"`
}

type attachmentData struct {
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Waveform    string `json:"waveform"` // of a voice message
}

type namedData struct {
	Name string `json:"name"`
}

type pollData struct {
	Question pollText `json:"question"`
	Answers  []struct {
		Media pollText `json:"poll_media"`
	} `json:"answers"`
}

type pollText struct {
	Text string `json:"text"`
}

// componentData is any component, of a message or of a submitted modal.
type componentData struct {
	CustomID   string          `json:"custom_id"`
	Label      string          `json:"label"`
	Value      json.RawMessage `json:"value"` // a string, or true and false of a checkbox
	Values     []string        `json:"values"`
	Component  *componentData  `json:"component"`
	Components []componentData `json:"components"`
}

type interactionData struct {
	ID            snowflake       `json:"id"`
	ApplicationID snowflake       `json:"application_id"`
	Type          int             `json:"type"`
	Context       *int            `json:"context"`
	Token         string          `json:"token"`
	GuildID       snowflake       `json:"guild_id"`
	ChannelID     snowflake       `json:"channel_id"`
	Channel       *channelData    `json:"channel"`
	Member        *invokerData    `json:"member"` // in guilds
	User          *userData       `json:"user"`   // elsewhere
	Message       *messageData    `json:"message"`
	Data          json.RawMessage `json:"data"`
}

type invokerData struct {
	nickData
	User *userData `json:"user"`
}

type nickData struct {
	Nick string `json:"nick"`
}

type commandData struct {
	Name     string       `json:"name"`
	Type     int          `json:"type"` // 0 and 1: a slash command
	Options  []optionData `json:"options"`
	TargetID snowflake    `json:"target_id"`
	Resolved struct {
		Messages map[snowflake]messageData `json:"messages"`
	} `json:"resolved"`
}

type optionData struct {
	Name    string          `json:"name"`
	Type    int             `json:"type"`
	Value   json.RawMessage `json:"value"` // a string, a number, or a boolean
	Options []optionData    `json:"options"`
}
