// Package guilds knows the servers and channels a bot is in, who sees them and who manages them. It learns
// from the gateway's dispatches and asks Discord for the rest.
//
// The types are its own, since discordgo's hold all members and emojis of a guild. So is the judgement of permissions,
// since discordgo's treats a thread of a hidden channel as visible.
package guilds

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Guilds remembers servers and channels, and answers who sees a place. After a resume it is empty at first, and the
// gateway never reports archived threads: Guilds looks up what is missing. It remembers no failure.
//
// It implements platforms.Roster, Manager, Locator, Threader, DirectChats and AuthorTeller. Methods may be
// called from any goroutine. Only those with a context do I/O. Values handed out are never changed.
type Guilds struct {
	// Set once, by New.
	platform relay.PlatformID
	me       ID // 0 for a bot without an id of Discord's
	api      api

	mu       sync.RWMutex // guards the fields below
	guilds   map[ID]Guild
	channels map[ID]Channel // threads and direct-message channels, too
	// version grows with every change that the gateway reports: the result of a look-up from before a change is not
	// kept after it.
	version uint64
}

// api is the part of the REST client the lookups need.
type api interface {
	Do(ctx context.Context, method, endpoint string, body, out any) error
}

// New makes the Guilds of a bot.
func New(bot relay.Bot, api api) *Guilds {
	me, _ := ParseID(string(bot.ID))
	return &Guilds{platform: bot.Platform, me: me, api: api, guilds: map[ID]Guild{}, channels: map[ID]Channel{}}
}

// Me returns the bot's id; 0 if it has none of Discord's.
func (c *Guilds) Me() ID { return c.me }

// IsThread reports whether c is a thread: its permissions are those of its parent.
func (c Channel) IsThread() bool {
	switch c.Kind {
	case discordgo.ChannelTypeGuildNewsThread, discordgo.ChannelTypeGuildPublicThread, discordgo.ChannelTypeGuildPrivateThread:
		return true
	}
	return false
}

// HoldsPosts reports whether the threads of c are posts, each with a first message that has the thread's id.
func (c Channel) HoldsPosts() bool {
	return c.Kind == discordgo.ChannelTypeGuildForum || c.Kind == discordgo.ChannelTypeGuildMedia
}

// known returns the value under an id, and the version that keep needs for a look-up from now on.
func known[V any](c *Guilds, all map[ID]V, id ID) (v V, version uint64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok = all[id]
	return v, c.version, ok
}

// keep remembers the result of a look-up, unless something changed since the version that known returned.
func keep[V any](c *Guilds, all map[ID]V, id ID, v V, since uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == since {
		all[id] = v
	}
}

// withOwn returns g with Own set to the bot's own role among its roles.
func (c *Guilds) withOwn(g Guild) Guild {
	g.Own = 0
	for _, r := range g.Roles {
		if r.Tags.BotID != 0 && r.Tags.BotID == c.me {
			g.Own = r.ID
		}
	}
	return g
}

// ChannelOf returns the needed parts of d. within is the guild in whose payload d came, for a d that names no guild.
func ChannelOf(d ChannelData, within ID) Channel {
	ch := d.Channel
	ch.Guild = cmp.Or(ch.Guild, within)
	ch.Overwrites = slices.Clone(ch.Overwrites) // as long as needed: the decoder makes them longer
	if d.Flags&flagObfuscated != 0 {
		ch.Name, ch.Topic = "", ""
	}
	if !ch.IsThread() {
		ch.Parent = 0 // a category
	}
	if ch.Kind == discordgo.ChannelTypeDM && len(d.Recipients) == 1 {
		ch.Recipient = d.Recipients[0].ID
	}
	return ch
}
