package guilds

import (
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"
)

// mayDoAll are the permissions of administrators and of a guild's owner.
const mayDoAll = ^permissions(0)

// person is what determines the permissions of one member of a guild.
type person struct {
	id         ID
	roles      []ID      // without @everyone
	mutedUntil time.Time // end of a timeout; may be past
}

// permissionsIn returns the permissions of p in channel c of guild g at now, in the order of
// https://docs.discord.com/developers/topics/permissions. For a thread, c is its parent. A person who cannot view a
// channel may do nothing in it.
func permissionsIn(g Guild, c Channel, p person, now time.Time) permissions {
	may := basePermissions(g, p)
	if may&discordgo.PermissionAdministrator != 0 {
		return mayDoAll
	}
	var allow, deny permissions // of all roles together: their order does not matter
	var own overwrite
	for _, o := range c.Overwrites {
		switch {
		case o.Type == discordgo.PermissionOverwriteTypeMember && o.ID == p.id:
			own = o
		case o.Type == discordgo.PermissionOverwriteTypeMember:
		case o.ID == g.ID: // @everyone, which comes before all others
			may = may&^o.Deny | o.Allow
		case slices.Contains(p.roles, o.ID):
			allow |= o.Allow
			deny |= o.Deny
		}
	}
	may = may&^deny | allow
	may = may&^own.Deny | own.Allow
	if now.Before(p.mutedUntil) {
		may &= discordgo.PermissionViewChannel | discordgo.PermissionReadMessageHistory
	}
	if may&discordgo.PermissionViewChannel == 0 {
		return 0
	}
	return may
}

// basePermissions returns the permissions that p has in guild g, without the overwrites of a channel.
func basePermissions(g Guild, p person) permissions {
	if p.id == g.Owner {
		return mayDoAll
	}
	var may permissions
	for _, r := range g.Roles {
		if r.ID == g.ID || slices.Contains(p.roles, r.ID) {
			may |= r.Permissions
		}
	}
	return may
}

// seesChannel reports whether p can read c, which is not a thread. To read in a voice channel, one must be allowed to
// enter it.
func seesChannel(g Guild, c Channel, p person, now time.Time) bool {
	need := permissions(discordgo.PermissionViewChannel)
	if c.Kind == discordgo.ChannelTypeGuildVoice || c.Kind == discordgo.ChannelTypeGuildStageVoice {
		need |= discordgo.PermissionVoiceConnect
	}
	return permissionsIn(g, c, p, now)&need == need
}

// managesGuild reports whether p decides about every channel of g.
func managesGuild(g Guild, p person, now time.Time) bool {
	may := basePermissions(g, p)
	if may&discordgo.PermissionAdministrator != 0 {
		return true // a timeout does not bind them
	}
	return may&discordgo.PermissionManageGuild != 0 && !now.Before(p.mutedUntil)
}

// managesChannel reports whether p decides who reads c, which is not a thread.
func managesChannel(g Guild, c Channel, p person, now time.Time) bool {
	return managesGuild(g, p, now) || permissionsIn(g, c, p, now)&discordgo.PermissionManageChannels != 0
}
