package guilds

import (
	"errors"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/call"
)

// The parts of Discord's objects that are read, spelled as on https://docs.discord.com/developers.

// flagObfuscated marks a channel the bot cannot see: Discord tells its place, and nothing true
// besides (https://docs.discord.com/developers/change-log, August 12, 2026).
const flagObfuscated = 1 << 17

var (
	errWithoutGuild   = errors.New("an event about a guild that does not say which")
	errWithoutChannel = errors.New("something without a channel's id")
)

type guildData struct {
	ID          ID            `json:"id"`
	Name        string        `json:"name"`
	OwnerID     ID            `json:"owner_id"`
	Unavailable bool          `json:"unavailable"`
	Roles       []roleData    `json:"roles"`
	Channels    []ChannelData `json:"channels"` // in GUILD_CREATE only
	Threads     []ChannelData `json:"threads"`  // in GUILD_CREATE only
}

type roleData struct {
	ID          ID   `json:"id"`
	Permissions bits `json:"permissions"`
	Tags        struct {
		BotID ID `json:"bot_id"`
	} `json:"tags"`
}

// ChannelData is a channel as Discord describes it; see ChannelOf.
type ChannelData struct {
	ID         ID                    `json:"id"`
	GuildID    ID                    `json:"guild_id"`
	ParentID   ID                    `json:"parent_id"`
	Type       discordgo.ChannelType `json:"type"`
	Flags      int64                 `json:"flags"`
	Name       string                `json:"name"`
	Topic      string                `json:"topic"`
	Overwrites []overwriteData       `json:"permission_overwrites"`
	Recipients []User                `json:"recipients"`
	Thread     struct {
		Archived bool `json:"archived"`
	} `json:"thread_metadata"`
}

type overwriteData struct {
	ID    ID                                `json:"id"`
	Type  discordgo.PermissionOverwriteType `json:"type"`
	Allow bits                              `json:"allow"`
	Deny  bits                              `json:"deny"`
}

// User is somebody with an account: a person, or a bot.
type User struct {
	ID         ID     `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

type memberData struct {
	Roles      []ID      `json:"roles"`
	MutedUntil time.Time `json:"communication_disabled_until"`
}

// Decode reads a payload. The error has no value of the payload in it.
func Decode(data []byte, out any) error { return call.Decode(data, out, errNoID, errNoBits) }
