package guilds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// CanManage implements platforms.Manager: who may change a channel's permissions decides who reads
// it, which is who has Manage Channels there (for a thread: in its channel) or Manage Server, an
// administrator, and the guild's owner. For a whole guild Manage Channels is not enough. It answers
// as CanSee does, and asks again while Discord is in trouble: a person waits.
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
	g, err := c.Guild(ctx, id)
	if err != nil {
		return false, err
	}
	p, err := c.person(ctx, g, who)
	if err != nil {
		return false, err
	}
	return managesGuild(g, p, time.Now()), nil
}

func (c *Guilds) managesChat(ctx context.Context, place relay.Place, who ID) (bool, error) {
	where, err := ParseID(string(place.Chat))
	if err != nil {
		return false, fmt.Errorf("chat id: %w", err)
	}
	ch, err := c.Channel(ctx, where)
	if err != nil {
		return false, err
	}
	if ch.Guild == 0 || place.Scope != "" && string(place.Scope) != ch.Guild.String() {
		return false, nil
	}
	s, err := c.standing(ctx, ch, who)
	if err != nil {
		return false, err
	}
	return managesChannel(s.guild, s.base, s.person, time.Now()), nil
}
