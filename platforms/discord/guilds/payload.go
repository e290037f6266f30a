package guilds

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// The parts of Discord's objects that are read, spelled as on https://docs.discord.com/developers.

// flagObfuscated marks a channel the bot cannot see: its name and topic are not true
// (https://docs.discord.com/developers/change-log, August 12, 2026).
const flagObfuscated = 1 << 17

var (
	errWithoutGuild   = errors.New("an event about a guild that does not say which")
	errWithoutChannel = errors.New("something without a channel's id")
)

// Guild is a server.
type Guild struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	Owner ID     `json:"owner_id"`
	Roles []role `json:"roles"` // never changed in place: a changed guild has a new slice
	Own   ID     `json:"-"`     // the role that Discord made for the bot alone; 0: there is none
}

// guildData is a guild as Discord describes it.
type guildData struct {
	Guild
	Unavailable bool          `json:"unavailable"`
	Channels    []ChannelData `json:"channels"` // in GUILD_CREATE only
	Threads     []ChannelData `json:"threads"`  // in GUILD_CREATE only
}

type role struct {
	ID          ID          `json:"id"`
	Permissions permissions `json:"permissions"`
	Tags        struct {
		BotID ID `json:"bot_id"`
	} `json:"tags"`
}

// Channel is a place for messages, or one that only holds such places (a forum).
type Channel struct {
	ID         ID                    `json:"id"`
	Guild      ID                    `json:"guild_id"`  // 0: direct messages
	Parent     ID                    `json:"parent_id"` // of a thread: the channel it belongs to
	Kind       discordgo.ChannelType `json:"type"`
	Name       string                `json:"name"` // empty when it is hidden from the bot
	Topic      string                `json:"topic"`
	Overwrites []overwrite           `json:"permission_overwrites"`
	Recipient  ID                    `json:"-"` // of a direct-message channel: who is on the other side
}

// ChannelData is a channel as Discord describes it; see ChannelOf.
type ChannelData struct {
	Channel
	Flags      int64  `json:"flags"`
	Recipients []User `json:"recipients"`
	Thread     struct {
		Archived bool `json:"archived"`
	} `json:"thread_metadata"`
}

// overwrite changes the permissions of one role or one member in a channel.
type overwrite struct {
	ID    ID                                `json:"id"`
	Type  discordgo.PermissionOverwriteType `json:"type"`
	Allow permissions                       `json:"allow"`
	Deny  permissions                       `json:"deny"`
}

// User is somebody with an account: a person, or a bot.
type User struct {
	ID         ID     `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

// memberData is a member of a guild as Discord describes them.
type memberData struct {
	Roles      []ID      `json:"roles"`
	MutedUntil time.Time `json:"communication_disabled_until"`
}

// Decode reads a payload. The error has no value of the payload in it.
func Decode(data []byte, out any) error { return httpcall.Decode(data, out, errNoID, errNoPermissions) }

// ID is one of Discord's ids (a snowflake); 0 means none.
type ID uint64

// epoch is the beginning of Discord's count of milliseconds.
const epoch = 1420070400000

var errNoID = errors.New("an id that is no number")

// ParseID reads an id as Discord writes it: no 0, and no zeros in front.
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || s[0] == '0' {
		return 0, errNoID // without s, which may be anything
	}
	return ID(n), nil
}

// UnmarshalJSON takes a string or a number. null and "" are no id.
func (id *ID) UnmarshalJSON(raw []byte) error {
	s, err := digits(raw)
	if err != nil {
		return err
	}
	if s == "" {
		*id = 0
		return nil
	}
	*id, err = ParseID(s)
	return err
}

// String returns the id as Discord writes it; empty for 0.
func (id ID) String() string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Time returns when the id was made.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(id>>22) + epoch).UTC()
}

// permissions are a set of discordgo's permissions. Discord writes them as a decimal number of any length in a string;
// bits beyond the 64th are dropped.
type permissions int64

var errNoPermissions = errors.New("permissions that are no number")

// UnmarshalJSON takes a string or a number; null is the empty set.
func (p *permissions) UnmarshalJSON(raw []byte) error {
	s, err := digits(raw)
	if err != nil {
		return err
	}
	var n uint64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return errNoPermissions
		}
		n = n*10 + uint64(c-'0') // modulo 2^64 the low bits stay right
	}
	*p = permissions(n)
	return nil
}

// digits returns the text of a JSON string or number; empty for null.
func digits(raw []byte) (string, error) {
	if string(raw) == "null" {
		return "", nil
	}
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	return string(raw), nil
}

// At returns the least id that can be made at t; 0 for times before there were ids.
func At(t time.Time) ID {
	ms := t.UnixMilli() - epoch
	if ms <= 0 {
		return 0
	}
	return ID(ms) << 22
}

// Back returns the least id that could be made d before id was.
func (id ID) Back(d time.Duration) ID { return At(id.Time().Add(-d)) }
