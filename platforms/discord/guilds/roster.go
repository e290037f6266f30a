package guilds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/relay"
)

// CanSee implements platforms.Roster. It asks Discord, once, for a member's roles and for the members of a private
// thread. It returns false if Discord says that the chat or the member does not exist or that the bot may not know, and
// for an invalid id. It returns an error if Discord does not answer.
func (c *Guilds) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, err := ParseID(string(user))
	where, err2 := ParseID(string(place.Chat))
	if err != nil || err2 != nil {
		return false, nil
	}
	sees, err := c.sees(ctx, where, place.Scope, who)
	if errors.Is(err, errNoPlace) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("visibility of a chat: %w", err)
	}
	return sees, nil
}

// sees reports whether a user can read a channel. scope, when not empty, is the guild it has to be in.
func (c *Guilds) sees(ctx context.Context, where ID, scope relay.ScopeID, who ID) (bool, error) {
	ch, err := c.Channel(ctx, where)
	if err != nil {
		return false, err
	}
	switch {
	case scope != "" && string(scope) != ch.Guild.String():
		return false, nil
	case ch.Guild == 0:
		return ch.Recipient != 0 && ch.Recipient == who, nil
	}
	s, err := c.standing(ctx, ch, who)
	if err != nil {
		return false, err
	}
	now := time.Now()
	switch {
	case !seesChannel(s.guild, s.base, s.person, now):
		return false, nil
	case ch.Kind != discordgo.ChannelTypeGuildPrivateThread || permissionsIn(s.guild, s.base, s.person, now)&discordgo.PermissionManageThreads != 0:
		return true, nil
	}
	return c.inThread(ctx, where, who)
}

// standing is everything that determines the permissions of a person in a channel of a guild.
type standing struct {
	guild  Guild
	base   Channel // the channel whose permissions count: itself, or the parent of a thread
	person person
}

// standing looks up everything that determines the permissions of a user in ch. The error wraps errNoPlace if they are
// not a member, or if ch is a thread without a channel of its guild as its parent.
func (c *Guilds) standing(ctx context.Context, ch Channel, who ID) (s standing, err error) {
	if s.guild, err = c.Guild(ctx, ch.Guild); err != nil {
		return s, err
	}
	s.base = ch
	if ch.IsThread() {
		if s.base, err = c.Channel(ctx, ch.Parent); err != nil {
			return s, err
		}
		if s.base.Guild != ch.Guild || s.base.IsThread() {
			return s, errNoPlace
		}
	}
	if s.person = (person{id: who}); who != s.guild.Owner { // an owner may do all, whatever their roles
		s.person, err = c.member(ctx, s.guild.ID, who)
	}
	return s, err
}

func (c *Guilds) Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error) {
	ch, err := patiently(ctx, func(ctx context.Context) (Channel, error) { return c.channelBy(ctx, string(chat)) })
	if err != nil {
		return relay.Place{}, err
	}
	return c.place(ch), nil
}

// channelBy is Channel for an id as text.
func (c *Guilds) channelBy(ctx context.Context, id string) (Channel, error) {
	where, err := ParseID(id)
	if err != nil {
		return Channel{}, fmt.Errorf("channel id: %w", err)
	}
	return c.Channel(ctx, where)
}

// place returns the place of the channel.
func (c *Guilds) place(ch Channel) relay.Place {
	return relay.Place{
		Platform: c.platform, Scope: relay.ScopeID(ch.Guild.String()), Chat: relay.ChatID(ch.ID.String()), Parent: relay.ChatID(ch.Parent.String()),
	}
}

// Thread implements platforms.Threader. open: the thread is not a private one.
func (c *Guilds) Thread(ctx context.Context, id relay.ThreadID) (place relay.Place, open bool, err error) {
	ch, err := c.channelBy(ctx, string(id))
	switch {
	case err != nil:
		return relay.Place{}, false, err
	case !ch.IsThread():
		return relay.Place{}, false, fmt.Errorf("thread: a channel: %w", errNoPlace)
	}
	return c.place(ch), ch.Kind != discordgo.ChannelTypeGuildPrivateThread, nil
}

// DirectUser implements platforms.DirectChats for chats with a message since the start, or that were looked up.
func (c *Guilds) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	id, err := ParseID(string(chat))
	if err != nil {
		return "", false
	}
	ch, _, ok := known(c, c.channels, id)
	if !ok || ch.Recipient == 0 {
		return "", false
	}
	return relay.UserID(ch.Recipient.String()), true
}

// CanManage implements platforms.Manager. A channel is managed by those who may change its permissions: with Manage
// Channels there (for a thread: in its parent), with Manage Server, as an administrator, or as the guild's owner.
// Manage Channels does not suffice for a guild. It answers like CanSee, but asks again while Discord is in trouble,
// because a person waits.
func (c *Guilds) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, err := ParseID(string(user))
	if err != nil {
		return false, fmt.Errorf("user id: %w", err)
	}
	manages, err := patiently(ctx, func(ctx context.Context) (bool, error) {
		if place.Chat == "" {
			return c.managesScope(ctx, place.Scope, who)
		}
		return c.managesChat(ctx, place, who)
	})
	if errors.Is(err, errNoPlace) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("management of a chat: %w", err)
	}
	return manages, nil
}

func (c *Guilds) managesScope(ctx context.Context, scope relay.ScopeID, who ID) (bool, error) {
	id, err := ParseID(string(scope))
	if err != nil {
		return false, fmt.Errorf("scope id: %w", err)
	}
	s, err := c.standing(ctx, Channel{Guild: id}, who)
	return err == nil && managesGuild(s.guild, s.person, time.Now()), err
}

func (c *Guilds) managesChat(ctx context.Context, place relay.Place, who ID) (bool, error) {
	ch, err := c.channelBy(ctx, string(place.Chat))
	if err != nil {
		return false, err
	}
	if ch.Guild == 0 || place.Scope != "" && string(place.Scope) != ch.Guild.String() {
		return false, nil
	}
	s, err := c.standing(ctx, ch, who)
	return err == nil && managesChannel(s.guild, s.base, s.person, time.Now()), err
}

// IsOwn implements platforms.AuthorTeller: it asks Discord whether the bot wrote a message.
func (c *Guilds) IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error) {
	where, err := ParseID(string(chat))
	id, err2 := ParseID(string(message))
	if err := errors.Join(err, err2); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	var m struct {
		Author *User `json:"author"`
	}
	if err := c.ask(ctx, discordgo.EndpointChannelMessage(where.String(), id.String()), &m); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	if m.Author == nil {
		return false, errors.New("look up a message: it has no author")
	}
	return m.Author.ID == c.me, nil
}
