package discord

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// cache is what the gateway told about guilds and channels, and what was looked up besides: just
// enough to name a place and to judge who sees it. Archived threads are not in it, nor is anything
// before the first READY; what is missing is asked for (finder).
//
// Methods may be called from any goroutine and do no I/O. Values handed out are never changed.
type cache struct {
	me snowflake // set once, by newCache

	mu       sync.RWMutex // guards the fields below
	guilds   map[snowflake]guild
	channels map[snowflake]channel // threads and direct-message channels, too
	// version grows with every change the gateway tells, so that what was looked up before a
	// change is not put in after it.
	version uint64
}

// guild is a server.
type guild struct {
	id    snowflake
	owner snowflake
	own   snowflake // the role Discord made for the bot alone; 0 when there is none
	name  string
	roles []role // replaced as a whole
}

type role struct {
	id          snowflake
	permissions int64
}

// channel is a place for messages, or one that only holds such places (a forum).
type channel struct {
	id         snowflake
	guild      snowflake // 0: direct messages
	parent     snowflake // of a thread: the channel it belongs to
	recipient  snowflake // of a direct-message channel: who is on the other side
	kind       int
	name       string // empty when it is hidden from the bot
	topic      string
	overwrites []overwrite
}

// overwrite changes the permissions of one role or one member in a channel.
type overwrite struct {
	id          snowflake
	member      bool
	allow, deny int64
}

func (c channel) isThread() bool {
	return c.kind == channelNewsThread || c.kind == channelPublicThread || c.kind == channelPrivateThread
}

// holdsPosts: its threads are posts, each with a first message that has the thread's id.
func (c channel) holdsPosts() bool { return c.kind == channelForum || c.kind == channelMedia }

func newCache(bot relay.Bot) *cache {
	me, _ := parseSnowflake(string(bot.ID)) // a bot without an id of Discord's owns no role
	return &cache{me: me, guilds: map[snowflake]guild{}, channels: map[snowflake]channel{}}
}

func (c *cache) guild(id snowflake) (guild, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	g, ok := c.guilds[id]
	return g, ok
}

func (c *cache) channel(id snowflake) (channel, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ch, ok := c.channels[id]
	return ch, ok
}

// now is the version to hand to keepGuild and keepChannel with what is looked up from here on.
func (c *cache) now() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// keepGuild remembers a guild that was looked up, unless something changed since.
func (c *cache) keepGuild(g guild, since uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == since {
		c.guilds[g.id] = g
	}
}

// keepChannel remembers a channel that was looked up, unless something changed since.
func (c *cache) keepChannel(ch channel, since uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == since {
		c.channels[ch.id] = ch
	}
}

// guildOf is d without what is not needed.
func (c *cache) guildOf(d guildData) guild {
	g := guild{id: d.ID, owner: d.OwnerID, name: d.Name, roles: make([]role, 0, len(d.Roles))}
	for _, r := range d.Roles {
		g.roles = append(g.roles, role{r.ID, int64(r.Permissions)})
		if r.Tags.BotID != 0 && r.Tags.BotID == c.me {
			g.own = r.ID
		}
	}
	return g
}

// channelOf is d without what is not needed. within is the guild it came in, if it does not say.
func channelOf(d channelData, within snowflake) channel {
	ch := channel{id: d.ID, guild: d.GuildID, kind: d.Type, name: d.Name, topic: d.Topic}
	if ch.guild == 0 {
		ch.guild = within
	}
	if d.Flags&flagObfuscated != 0 {
		ch.name, ch.topic = "", ""
	}
	if ch.isThread() {
		ch.parent = d.ParentID
	}
	if d.Type == channelDM && len(d.Recipients) == 1 {
		ch.recipient = d.Recipients[0].ID
	}
	if len(d.Overwrites) > 0 {
		ch.overwrites = make([]overwrite, 0, len(d.Overwrites))
	}
	for _, o := range d.Overwrites {
		ch.overwrites = append(ch.overwrites, overwrite{
			id: o.ID, member: o.Type == overwriteMember, allow: int64(o.Allow), deny: int64(o.Deny),
		})
	}
	return ch
}
