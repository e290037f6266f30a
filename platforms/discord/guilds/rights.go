package guilds

import (
	"context"
	"errors"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Rights reports whether the bot itself sees a place and may write there. A place with an empty chat is the whole
// guild: every member sees it, and each channel decides who may write in it. After an error neither is known.
func (c *Guilds) Rights(ctx context.Context, place relay.Place) (sees, sends bool, err error) {
	if sees, sends, err = c.rights(ctx, place); errors.Is(err, errNoPlace) {
		return false, false, nil
	}
	return sees, sends, err
}

// rights is Rights, but returns an error that wraps errNoPlace if Discord says that the place does not exist or is not
// for the bot to see.
func (c *Guilds) rights(ctx context.Context, place relay.Place) (sees, sends bool, err error) {
	if place.Chat == "" {
		id, err := ParseID(string(place.Scope))
		if err != nil {
			return false, false, errNoPlace
		}
		_, err = c.member(ctx, id, c.me)
		return err == nil, err == nil, err
	}
	id, err := ParseID(string(place.Chat))
	if err != nil {
		return false, false, errNoPlace
	}
	ch, err := c.Channel(ctx, id)
	if err != nil || ch.Guild == 0 { // in direct messages the bot sees and may write
		return err == nil, err == nil, err
	}
	s, err := c.standing(ctx, ch, c.me)
	if err != nil {
		return false, false, err
	}
	need := permissions(discordgo.PermissionSendMessages)
	if ch.IsThread() || ch.HoldsPosts() {
		need = discordgo.PermissionSendMessagesInThreads
	}
	now := time.Now()
	return seesChannel(s.guild, s.base, s.person, now), permissionsIn(s.guild, s.base, s.person, now)&need == need, nil
}
