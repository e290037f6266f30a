package discord

import (
	"encoding/json"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
)

// The parts of Discord's objects that are read from events, as on https://docs.discord.com/developers. The
// library's message refuses a whole message for one component it does not know.

type messageData struct {
	ID           guilds.ID               `json:"id"`
	ChannelID    guilds.ID               `json:"channel_id"`
	GuildID      guilds.ID               `json:"guild_id"`
	ChannelType  *discordgo.ChannelType  `json:"channel_type"`
	Type         discordgo.MessageType   `json:"type"`
	Flags        int64                   `json:"flags"`
	Author       *guilds.User            `json:"author"`
	Member       nickData                `json:"member"` // of the author; empty in answers of REST
	WebhookID    guilds.ID               `json:"webhook_id"`
	Content      string                  `json:"content"`
	Mentions     []guilds.User           `json:"mentions"`
	MentionRoles []guilds.ID             `json:"mention_roles"`
	Attachments  []attachmentData        `json:"attachments"`
	Stickers     []discordgo.StickerItem `json:"sticker_items"`
	Poll         *discordgo.Poll         `json:"poll"`
	Reference    *struct {               // to the message replied to, or forwarded
		Type      discordgo.MessageReferenceType `json:"type"`
		MessageID guilds.ID                      `json:"message_id"`
	} `json:"message_reference"`
	Referenced *messageData `json:"referenced_message"`
	Snapshots  []struct {   // the messages forwarded with it
		Message messageData `json:"message"`
	} `json:"message_snapshots"`
	Components []componentData `json:"components"`
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

// formData is the data of a submitted modal.
type formData struct {
	Components []componentData `json:"components"`
	Resolved   struct {
		Attachments map[string]attachmentData `json:"attachments"`
	} `json:"resolved"`
}

// nickData is the part of a member of a guild that is read: their nickname there.
type nickData struct {
	Nick string `json:"nick"`
}

// commandData is the data of a slash command or of a context-menu command.
type commandData struct {
	Name     string                           `json:"name"`
	Type     discordgo.ApplicationCommandType `json:"type"` // 0 and 1: a slash command
	Options  []optionData                     `json:"options"`
	TargetID guilds.ID                        `json:"target_id"`
	Resolved struct {
		Messages    map[guilds.ID]messageData `json:"messages"`
		Attachments map[string]attachmentData `json:"attachments"`
	} `json:"resolved"`
}

type optionData struct {
	Name    string                                 `json:"name"`
	Type    discordgo.ApplicationCommandOptionType `json:"type"`
	Value   json.RawMessage                        `json:"value"` // a string, a number, or a boolean
	Options []optionData                           `json:"options"`
}
