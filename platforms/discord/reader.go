package discord

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// patience is how long events wait for a lookup that fails before they go on with what they say of
// themselves: one channel must not hold up all others for ever.
const patience = 2 * time.Minute

// reader turns payloads into events. It is for one goroutine.
type reader struct {
	normaliser
	finder
	stuck   snowflake // the channel an event last waited for
	stuckAt time.Time // since when
}

func newReader(bot relay.Bot, c *cache, a api) *reader {
	return &reader{normaliser: normaliser{bot: bot, me: c.me}, finder: finder{cache: c, api: a}}
}

// message is the event in a MESSAGE_CREATE, or in a message of a channel's history; nil when nobody
// wrote it. It may look up where that was. An error that wraps errUnknownYet calls for another try
// after a pause, any other is about the payload and has nothing of it in it.
func (r *reader) message(ctx context.Context, data []byte) (*relay.Event, error) {
	var m messageData
	if err := decode(data, &m); err != nil {
		return nil, err
	}
	if ok, err := r.written(&m); err != nil || !ok {
		return nil, err
	}
	hint := channel{id: m.ChannelID, guild: m.GuildID, kind: channelText}
	sure := m.ChannelType != nil
	switch {
	case sure:
		hint.kind = *m.ChannelType
	case m.GuildID == 0:
		hint.kind = channelDM
	}
	if m.Author.ID == r.me { // goes nowhere
		return r.fromMessage(&m, spot{channel: hint}), nil
	}
	if sure {
		r.learnDirect(hint, m.Author.ID)
	}
	sure = sure && !hint.isThread()
	at, err := r.spot(ctx, hint, sure, sure || m.ID != m.ChannelID)
	if err != nil {
		return nil, err
	}
	return r.fromMessage(&m, at), nil
}

// interaction is the event in an interaction, and the token to answer it with; nil when there is
// nothing for anybody. It may look up where that was.
func (r *reader) interaction(ctx context.Context, i *interaction) (*relay.Event, *platforms.Capability, error) {
	if !i.wanted() {
		return nil, nil, nil
	}
	hint := channel{id: i.channel, guild: i.guild, kind: channelText}
	switch {
	case i.place != nil:
		hint = channelOf(*i.place, i.guild)
		hint.id = i.channel
	case i.guild == 0:
		hint.kind = channelDM
	}
	r.learnDirect(hint, i.user.ID)
	at, err := r.spot(ctx, hint, i.place != nil || i.guild == 0, true)
	if err != nil {
		return nil, nil, err
	}
	return r.fromInteraction(i, at)
}

// learnDirect remembers whom the bot talks to in ch, if that is a direct-message channel: Discord
// tells of those only by what happens in them.
func (r *reader) learnDirect(ch channel, with snowflake) {
	if _, known := r.cache.channel(ch.id); known || ch.kind != channelDM {
		return
	}
	ch.recipient = with
	r.cache.keepChannel(ch, r.cache.now())
}

// spot completes what an event says about its place. sure: what hint says can be relied on, should
// nothing better be had; sureParent likewise for a thread's parent. Only names are missing then.
func (r *reader) spot(ctx context.Context, hint channel, sure, sureParent bool) (spot, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	at := spot{channel: hint}
	ch, err := r.channel(ctx, hint.id)
	if err == nil {
		ch.guild = max(ch.guild, hint.guild) // the same, or one of them unknown
		if ch.name == "" {
			ch.name = hint.name // an interaction names a channel the bot cannot see
		}
		at.channel = ch
	} else if !sure && r.waitFor(hint.id, err) {
		return spot{}, err
	}
	if at.channel.isThread() && at.channel.parent != 0 {
		parent, err := r.channel(ctx, at.channel.parent)
		if err == nil {
			at.parent = parent
		} else if !sureParent && r.waitFor(hint.id, err) {
			return spot{}, err
		}
	}
	if at.channel.guild != 0 {
		if g, err := r.guild(ctx, at.channel.guild); err == nil {
			at.guild = g
		}
	}
	return at, nil
}

// waitFor reports whether the failure of a lookup for an event in channel id is worth another try:
// not when Discord's answer was no, or when patience with that channel is at its end.
func (r *reader) waitFor(id snowflake, err error) bool {
	if !errors.Is(err, errUnknownYet) {
		return false
	}
	if r.stuck != id {
		r.stuck, r.stuckAt = id, time.Now()
	}
	return time.Since(r.stuckAt) <= patience
}
