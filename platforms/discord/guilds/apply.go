package guilds

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Apply learns from a dispatch and returns who may see more or less than before. An unreadable payload could have
// hidden a channel from somebody: then Apply forgets everything, and the change concerns everything.
func (c *Guilds) Apply(kind string, data []byte) ([]platforms.RosterChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes, err := c.learnLocked(kind, data)
	if err != nil {
		changes, err = c.forgetLocked(), fmt.Errorf("%s: %w", kind, err)
	}
	if changes != nil {
		c.version++
	}
	return changes, err
}

// learnLocked is Apply without the treatment of errors. c.mu must be held.
func (c *Guilds) learnLocked(kind string, data []byte) ([]platforms.RosterChange, error) {
	switch kind {
	case "READY":
		return c.forgetLocked(), nil
	case "GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE":
		return c.guildLocked(kind, data)
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE":
		return c.roleLocked(data)
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE":
		return c.channelLocked(kind, data)
	case "THREAD_LIST_SYNC":
		return c.threadsLocked(data)
	case "THREAD_MEMBERS_UPDATE":
		return threadMembers(data)
	case "GUILD_MEMBER_ADD", "GUILD_MEMBER_UPDATE", "GUILD_MEMBER_REMOVE":
		return guildMember(data)
	}
	return nil, nil
}

// forgetLocked forgets everything, and returns the change that concerns everything. c.mu must be held.
func (c *Guilds) forgetLocked() []platforms.RosterChange {
	clear(c.guilds)
	clear(c.channels)
	return []platforms.RosterChange{{}}
}

// guildLocked learns from a dispatch about a guild, which is replaced with all its channels unless it is an update.
// c.mu must be held.
func (c *Guilds) guildLocked(kind string, data []byte) ([]platforms.RosterChange, error) {
	var d guildData
	if err := decodeOf(data, &d, &d.ID, errWithoutGuild); err != nil {
		return nil, err
	}
	if kind != "GUILD_UPDATE" {
		delete(c.guilds, d.ID)
		c.dropLocked(func(ch Channel) bool { return ch.Guild == d.ID })
	}
	if kind == "GUILD_DELETE" || d.Unavailable {
		return inScope(d.ID), nil
	}
	c.guilds[d.ID] = c.withOwn(d.Guild)
	for _, ch := range append(d.Channels, d.Threads...) { // an update has no channels
		c.putLocked(ch, d.ID)
	}
	return inScope(d.ID), nil
}

// roleLocked learns from a dispatch about a role. A guild that is not known stays unknown: it is looked up when needed.
// c.mu must be held.
func (c *Guilds) roleLocked(data []byte) ([]platforms.RosterChange, error) {
	var d struct {
		GuildID ID    `json:"guild_id"`
		Role    *role `json:"role"`    // made or changed
		RoleID  ID    `json:"role_id"` // deleted
	}
	if err := decodeOf(data, &d, &d.GuildID, errWithoutGuild); err != nil {
		return nil, err
	}
	if g, ok := c.guilds[d.GuildID]; ok {
		g.Roles = slices.DeleteFunc(slices.Clone(g.Roles), func(r role) bool {
			return r.ID == d.RoleID || d.Role != nil && r.ID == d.Role.ID
		})
		if d.Role != nil {
			g.Roles = append(g.Roles, *d.Role)
		}
		c.guilds[d.GuildID] = c.withOwn(g)
	}
	return inScope(d.GuildID), nil
}

// channelLocked learns from a dispatch about a channel or a thread. c.mu must be held.
func (c *Guilds) channelLocked(kind string, data []byte) ([]platforms.RosterChange, error) {
	var d ChannelData
	if err := decodeOf(data, &d, &d.ID, errWithoutChannel); err != nil {
		return nil, err
	}
	if kind == "CHANNEL_DELETE" || kind == "THREAD_DELETE" {
		c.dropLocked(func(ch Channel) bool { return ch.ID == d.ID || ch.Parent == d.ID })
	} else {
		c.putLocked(d, 0)
	}
	return []platforms.RosterChange{{Scope: relay.ScopeID(d.Guild.String()), Chat: relay.ChatID(d.ID.String())}}, nil
}

// threadsLocked remembers the threads of channels that the bot has begun to see. Other threads of these channels are
// forgotten.
func (c *Guilds) threadsLocked(data []byte) ([]platforms.RosterChange, error) {
	var d struct {
		GuildID  ID            `json:"guild_id"`
		Channels []ID          `json:"channel_ids"` // absent: all of the guild
		Threads  []ChannelData `json:"threads"`
	}
	if err := decodeOf(data, &d, &d.GuildID, errWithoutGuild); err != nil {
		return nil, err
	}
	c.dropLocked(func(ch Channel) bool {
		return ch.Guild == d.GuildID && ch.IsThread() && (d.Channels == nil || slices.Contains(d.Channels, ch.Parent))
	})
	for _, th := range d.Threads {
		c.putLocked(th, d.GuildID)
	}
	return inScope(d.GuildID), nil
}

// putLocked keeps a channel, unless it is a category, or an archived thread, which Discord reports again when it comes
// back. c.mu must be held.
func (c *Guilds) putLocked(d ChannelData, within ID) {
	switch {
	case d.ID == 0 || d.Kind == discordgo.ChannelTypeGuildCategory:
	case d.Thread.Archived:
		delete(c.channels, d.ID)
	default:
		c.channels[d.ID] = ChannelOf(d, within)
	}
}

// dropLocked forgets channels. c.mu must be held.
func (c *Guilds) dropLocked(which func(Channel) bool) {
	maps.DeleteFunc(c.channels, func(_ ID, ch Channel) bool { return which(ch) })
}

// threadMembers reports who came to or left a thread. Without the members' intent this is only the bot.
func threadMembers(data []byte) ([]platforms.RosterChange, error) {
	var d struct {
		ID      ID `json:"id"`
		GuildID ID `json:"guild_id"`
		Added   []struct {
			UserID ID `json:"user_id"`
		} `json:"added_members"`
		Removed []ID `json:"removed_member_ids"`
	}
	if err := decodeOf(data, &d, &d.ID, errWithoutChannel); err != nil {
		return nil, err
	}
	for _, m := range d.Added {
		d.Removed = append(d.Removed, m.UserID)
	}
	var changes []platforms.RosterChange
	for _, user := range d.Removed {
		changes = append(changes, platforms.RosterChange{
			Scope: relay.ScopeID(d.GuildID.String()), Chat: relay.ChatID(d.ID.String()), User: relay.UserID(user.String()),
		})
	}
	return changes, nil
}

// guildMember reports whose roles in a guild changed. Without the members' intent this is only the bot.
func guildMember(data []byte) ([]platforms.RosterChange, error) {
	var d struct {
		GuildID ID   `json:"guild_id"`
		User    User `json:"user"`
	}
	if err := decodeOf(data, &d, &d.GuildID, errWithoutGuild); err != nil {
		return nil, err
	}
	return []platforms.RosterChange{{Scope: relay.ScopeID(d.GuildID.String()), User: relay.UserID(d.User.ID.String())}}, nil
}

// decodeOf is Decode for a payload that must have an id. It returns the error without if the id is 0.
func decodeOf(data []byte, out any, id *ID, without error) error {
	if err := Decode(data, out); err != nil {
		return err
	}
	if *id == 0 {
		return without
	}
	return nil
}

// inScope returns a change of everything in a guild.
func inScope(guild ID) []platforms.RosterChange {
	return []platforms.RosterChange{{Scope: relay.ScopeID(guild.String())}}
}
