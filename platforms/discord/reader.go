package discord

import (
	"context"
	"errors"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

// patience is how long events wait for a look-up that fails. Then they are handed in without its result, because one
// channel must not hold up all others for ever.
const patience = 2 * time.Minute

// reader turns payloads into events. It is for one goroutine.
type reader struct {
	normaliser
	guilds  *guilds.Guilds
	stuck   guilds.ID // the channel an event last waited for
	stuckAt time.Time // since when
}

func newReader(bot relay.Bot, g *guilds.Guilds) *reader {
	return &reader{normaliser: normaliser{bot: bot, me: g.Me()}, guilds: g}
}

// message returns the event of a MESSAGE_CREATE, or of a message that was fetched from a channel's history in the guild
// scope; nil if nobody wrote it. An error that wraps guilds.ErrUnknownYet is worth another try; any other error is
// about the payload and contains nothing of it.
func (r *reader) message(ctx context.Context, data []byte, scope relay.ScopeID) (*relay.Event, error) {
	var m messageData
	if err := guilds.Decode(data, &m); err != nil {
		return nil, err
	}
	if m.GuildID == 0 {
		m.GuildID, _ = guilds.ParseID(string(scope))
	}
	if ok, err := r.written(&m); err != nil || !ok {
		return nil, err
	}
	// hint is the channel as far as the payload describes it; sure: the payload says of which kind it is.
	hint := guilds.Channel{ID: m.ChannelID, Guild: m.GuildID, Kind: discordgo.ChannelTypeGuildText}
	sure := m.ChannelType != nil
	switch {
	case sure:
		hint.Kind = *m.ChannelType
	case m.GuildID == 0:
		hint.Kind = discordgo.ChannelTypeDM
	}
	if m.Author.ID == r.me { // no gateway gets the bot's own messages: no look-up
		return r.fromMessage(&m, spot{channel: hint}), nil
	}
	if sure {
		r.guilds.LearnDirect(hint, m.Author.ID)
	}
	sure = sure && !hint.IsThread()
	at, err := r.spot(ctx, hint, sure, sure || m.ID != m.ChannelID)
	if err != nil {
		return nil, err
	}
	return r.fromMessage(&m, at), nil
}

// interaction returns the event of an interaction, and the capability to answer it; nil if the interaction becomes no
// event. Its errors are like those of message.
func (r *reader) interaction(ctx context.Context, i *interaction) (*relay.Event, *platforms.Capability, error) {
	if !i.wanted() {
		return nil, nil, nil
	}
	hint := guilds.Channel{ID: i.Channel, Guild: i.Guild, Kind: discordgo.ChannelTypeGuildText}
	switch {
	case i.Place != nil:
		hint = guilds.ChannelOf(*i.Place, i.Guild)
		hint.ID = i.Channel
	case i.Guild == 0:
		hint.Kind = discordgo.ChannelTypeDM
	}
	r.guilds.LearnDirect(hint, i.User.ID)
	at, err := r.spot(ctx, hint, i.Place != nil || i.Guild == 0, true)
	if err != nil {
		return nil, nil, err
	}
	return r.fromInteraction(i, at)
}

// spot looks up the channel of an event, the parent of a thread, and the guild. A channel that cannot be looked up is
// replaced by hint if sure is true, and the parent is left out if sureParent is true. Otherwise spot returns the error,
// unless waitFor says not to wait any longer.
func (r *reader) spot(ctx context.Context, hint guilds.Channel, sure, sureParent bool) (spot, error) {
	ctx, cancel := context.WithTimeout(ctx, guilds.AskWithin)
	defer cancel()
	at := spot{channel: hint}
	ch, err := r.guilds.Channel(ctx, hint.ID)
	if err == nil {
		ch.Guild = max(ch.Guild, hint.Guild) // they are equal, or one is unknown
		if ch.Name == "" {
			ch.Name = hint.Name // an interaction names a channel the bot cannot see
		}
		at.channel = ch
	} else if !sure && r.waitFor(hint.ID, err) {
		return spot{}, err
	}
	if at.channel.IsThread() && at.channel.Parent != 0 {
		parent, err := r.guilds.Channel(ctx, at.channel.Parent)
		if err == nil {
			at.parent = parent
		} else if !sureParent && r.waitFor(hint.ID, err) {
			return spot{}, err
		}
	}
	if at.channel.Guild != 0 {
		if g, err := r.guilds.Guild(ctx, at.channel.Guild); err == nil {
			at.guild = g
		}
	}
	return at, nil
}

// waitFor reports whether a failed look-up for an event in channel id is worth another try. It is not if Discord's
// answer was no, or if the events of that channel have waited for longer than patience.
func (r *reader) waitFor(id guilds.ID, err error) bool {
	if !errors.Is(err, guilds.ErrUnknownYet) {
		return false
	}
	if r.stuck != id {
		r.stuck, r.stuckAt = id, time.Now()
	}
	return time.Since(r.stuckAt) <= patience
}
