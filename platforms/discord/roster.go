package discord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// CanSee implements platforms.Roster. Of what the gateway told everything is at hand; what a member
// is and which private threads he is in, Discord is asked. Where it says that there is nothing, or
// nothing for the bot to know, the answer is no; where it does not answer, the error says so.
func (f finder) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, err := parseSnowflake(string(user))
	if err != nil {
		return false, fmt.Errorf("user id: %w", err)
	}
	where, err := parseSnowflake(string(place.Chat))
	if err != nil {
		return false, fmt.Errorf("chat id: %w", err)
	}
	sees, err := f.sees(ctx, where, place.Scope, who)
	if errors.Is(err, errNoPlace) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("visibility of a chat: %w", err)
	}
	return sees, nil
}

// sees reports whether a user can read a channel. scope, when not empty, is the guild it has to be in.
func (f finder) sees(ctx context.Context, where snowflake, scope relay.ScopeID, who snowflake) (bool, error) {
	ch, err := f.channel(ctx, where)
	if err != nil {
		return false, err
	}
	switch {
	case scope != "" && string(scope) != ch.guild.String():
		return false, nil
	case ch.guild == 0:
		return ch.recipient != 0 && ch.recipient == who, nil
	}
	s, err := f.standing(ctx, ch, who)
	if err != nil {
		return false, err
	}
	now := time.Now()
	switch {
	case !seesChannel(s.guild, s.base, s.person, now):
		return false, nil
	case ch.kind != channelPrivateThread || permissionsIn(s.guild, s.base, s.person, now)&mayManageThreads != 0:
		return true, nil
	}
	return f.inThread(ctx, where, who)
}

// standing is what decides what somebody may do in a channel of a guild.
type standing struct {
	guild  guild
	base   channel // where the permissions stand: the channel, or the one it is a thread of
	person person
}

// standing finds out how a user stands to a channel of a guild. The error wraps errNoPlace when he
// is no member, or when the channel is a thread of nothing.
func (f finder) standing(ctx context.Context, ch channel, who snowflake) (s standing, err error) {
	if s.guild, err = f.guild(ctx, ch.guild); err != nil {
		return s, err
	}
	s.base = ch
	if ch.isThread() {
		if s.base, err = f.channel(ctx, ch.parent); err != nil {
			return s, err
		}
		if s.base.guild != ch.guild || s.base.isThread() {
			return s, errNoPlace
		}
	}
	s.person, err = f.person(ctx, s.guild, who)
	return s, err
}

// person is a member of g. Of its owner nothing needs to be asked: he may do all.
func (f finder) person(ctx context.Context, g guild, who snowflake) (person, error) {
	if who == g.owner {
		return person{id: who}, nil
	}
	return f.member(ctx, g.id, who)
}

// Locate implements platforms.Locator.
func (f finder) Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error) {
	id, err := parseSnowflake(string(chat))
	if err != nil {
		return relay.Place{}, fmt.Errorf("chat id: %w", err)
	}
	ch, err := f.channel(ctx, id)
	if err != nil {
		return relay.Place{}, err
	}
	return ch.place(), nil
}

// place is where the channel is.
func (c channel) place() relay.Place {
	return relay.Place{
		Platform: Name, Scope: relay.ScopeID(c.guild.String()), Chat: relay.ChatID(c.id.String()), Parent: relay.ChatID(c.parent.String()),
	}
}

// Thread implements platforms.Threader.
func (f finder) Thread(ctx context.Context, id relay.ThreadID) (place relay.Place, open bool, err error) {
	where, err := parseSnowflake(string(id))
	if err != nil {
		return relay.Place{}, false, fmt.Errorf("thread id: %w", err)
	}
	ch, err := f.channel(ctx, where)
	switch {
	case err != nil:
		return relay.Place{}, false, err
	case !ch.isThread():
		return relay.Place{}, false, fmt.Errorf("thread: a channel: %w", errNoPlace)
	}
	return ch.place(), ch.kind != channelPrivateThread, nil
}

// DirectUser implements platforms.DirectChats, for the chats something was said in since the start
// or that were looked up.
func (f finder) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	id, err := parseSnowflake(string(chat))
	if err != nil {
		return "", false
	}
	ch, ok := f.cache.channel(id)
	if !ok || ch.recipient == 0 {
		return "", false
	}
	return relay.UserID(ch.recipient.String()), true
}

// CanSee implements platforms.Roster; see finder.CanSee.
func (p *Platform) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	return p.reader.CanSee(ctx, place, user)
}

// Locate implements platforms.Locator: from what the gateway told, or by asking.
func (p *Platform) Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error) {
	return p.reader.Locate(ctx, chat)
}

// Thread implements platforms.Threader: from what the gateway told, or by asking.
func (p *Platform) Thread(ctx context.Context, id relay.ThreadID) (place relay.Place, open bool, err error) {
	return p.reader.Thread(ctx, id)
}

// DirectUser implements platforms.DirectChats; see finder.DirectUser.
func (p *Platform) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	return p.reader.DirectUser(chat)
}
