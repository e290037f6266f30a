package guilds

import (
	"encoding/json"
	"errors"
	"strconv"
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

// ID is one of Discord's ids (a snowflake); 0 is none. Kept as a number it takes a third of its text.
type ID uint64

// epoch is when Discord's count of milliseconds begins.
const epoch = 1420070400000

var errNoID = errors.New("an id that is no number")

func ParseID(s string) (ID, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || s[0] == '0' {
		return 0, errNoID // without the text: anything may stand there
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

// String is the id as Discord writes it; empty for none.
func (id ID) String() string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Time is when the id was made.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(id>>22) + epoch).UTC()
}

// bits is a set of permissions. Discord writes it as a decimal number of any length in a string;
// what lies beyond the 64th bit is unknown to us and falls away.
type bits int64

var errNoBits = errors.New("permissions that are no number")

// UnmarshalJSON takes a string or a number; null is the empty set.
func (b *bits) UnmarshalJSON(raw []byte) error {
	s, err := digits(raw)
	if err != nil {
		return err
	}
	var n uint64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return errNoBits
		}
		n = n*10 + uint64(c-'0') // modulo 2^64 the low bits stay right
	}
	*b = bits(n)
	return nil
}

// digits is the text of a JSON string or number; empty for null.
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

// At is the least id of a moment; 0 for moments before there were ids.
func At(t time.Time) ID {
	ms := t.UnixMilli() - epoch
	if ms <= 0 {
		return 0
	}
	return ID(ms) << 22
}

// Back is the least id of a moment d earlier.
func (id ID) Back(d time.Duration) ID { return At(id.Time().Add(-d)) }
