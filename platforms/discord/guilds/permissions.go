package guilds

import (
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"
)

// The permissions that decide what somebody sees, and what he may let others see. They do not fit into an int everywhere.
const (
	mayAdminister    = int64(discordgo.PermissionAdministrator)
	mayView          = int64(discordgo.PermissionViewChannel)
	mayReadHistory   = int64(discordgo.PermissionReadMessageHistory)
	mayConnect       = int64(discordgo.PermissionVoiceConnect)
	mayManageThreads = int64(discordgo.PermissionManageThreads)
	mayManageChannel = int64(discordgo.PermissionManageChannels)
	mayManageGuild   = int64(discordgo.PermissionManageGuild)
	mayDoAll         = ^int64(0)
)

// person is what a guild knows of one of its members.
type person struct {
	id         ID
	roles      []ID      // without @everyone
	mutedUntil time.Time // end of a timeout; may be past
}

// permissionsIn is what p may do in channel c of guild g at now. The order is Discord's:
// https://docs.discord.com/developers/topics/permissions. A thread has no permissions of its own: c
// is its parent then. Who cannot view a channel may do nothing in it.
func permissionsIn(g Guild, c Channel, p person, now time.Time) int64 {
	may := basePermissions(g, p)
	if may&mayAdminister != 0 {
		return mayDoAll
	}
	var allow, deny int64 // of the roles, together: their order does not matter
	var own overwrite
	for _, o := range c.overwrites {
		switch {
		case o.member && o.id == p.id:
			own = o
		case o.member:
		case o.id == g.ID: // @everyone, which comes before all others
			may = may&^o.deny | o.allow
		case slices.Contains(p.roles, o.id):
			allow |= o.allow
			deny |= o.deny
		}
	}
	may = may&^deny | allow
	may = may&^own.deny | own.allow
	if now.Before(p.mutedUntil) {
		may &= mayView | mayReadHistory
	}
	if may&mayView == 0 {
		return 0
	}
	return may
}

// basePermissions is what p may do in guild g before any channel has its say.
func basePermissions(g Guild, p person) int64 {
	if p.id == g.owner {
		return mayDoAll
	}
	var may int64
	for _, r := range g.roles {
		if r.id == g.ID || slices.Contains(p.roles, r.id) {
			may |= r.permissions
		}
	}
	return may
}

// seesChannel reports whether p can read c, which is no thread. What is written in a voice channel
// is read only by those who may enter it.
func seesChannel(g Guild, c Channel, p person, now time.Time) bool {
	need := mayView
	if c.Kind == discordgo.ChannelTypeGuildVoice || c.Kind == discordgo.ChannelTypeGuildStageVoice {
		need |= mayConnect
	}
	return permissionsIn(g, c, p, now)&need == need
}

// managesGuild reports whether p decides about every channel of g.
func managesGuild(g Guild, p person, now time.Time) bool {
	may := basePermissions(g, p)
	if may&mayAdminister != 0 {
		return true // a timeout does not bind him
	}
	return may&mayManageGuild != 0 && !now.Before(p.mutedUntil)
}

// managesChannel reports whether p decides who reads c, which is no thread.
func managesChannel(g Guild, c Channel, p person, now time.Time) bool {
	return managesGuild(g, p, now) || permissionsIn(g, c, p, now)&mayManageChannel != 0
}
