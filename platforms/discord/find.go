package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/call"
)

// askWithin bounds the questions of somebody who keeps others waiting, repetitions included.
const askWithin = 5 * time.Second

// askAgain is the first pause before a question that failed is put again, where it is.
const askAgain = 250 * time.Millisecond

var (
	// errNoPlace: Discord says that there is no such guild, channel or member, or that the bot
	// may not know.
	errNoPlace = errors.New("not there, or not for the bot to see")
	// errUnknownYet: what must be known could not be looked up now; later it may.
	errUnknownYet = errors.New("could not be looked up")
)

// api is the part of the REST client the lookups need.
type api interface {
	Do(ctx context.Context, method, endpoint string, body, out any) error
}

// finder knows guilds and channels: from the cache, or else from Discord. A process that resumes its
// predecessor's session starts with an empty cache, and archived threads are never in it. It
// remembers no failure. Methods may be called from any goroutine.
type finder struct {
	cache *cache
	api   api
}

// guild finds a guild. The error wraps errNoPlace when Discord's answer is no.
func (f finder) guild(ctx context.Context, id snowflake) (guild, error) {
	if g, ok := f.cache.guild(id); ok {
		return g, nil
	}
	since := f.cache.now()
	var d guildData
	if err := f.ask(ctx, discordgo.EndpointGuild(id.String()), &d); err != nil {
		return guild{}, fmt.Errorf("look up guild: %w", err)
	}
	if d.ID != id {
		return guild{}, fmt.Errorf("look up guild: another one came: %w", errNoPlace)
	}
	g := f.cache.guildOf(d)
	f.cache.keepGuild(g, since)
	return g, nil
}

// channel finds a channel, thread or direct-message channel. The error wraps errNoPlace when
// Discord's answer is no.
func (f finder) channel(ctx context.Context, id snowflake) (channel, error) {
	if ch, ok := f.cache.channel(id); ok {
		return ch, nil
	}
	if id == 0 {
		return channel{}, errNoPlace
	}
	since := f.cache.now()
	var d channelData
	if err := f.ask(ctx, discordgo.EndpointChannel(id.String()), &d); err != nil {
		return channel{}, fmt.Errorf("look up channel: %w", err)
	}
	if d.ID != id {
		return channel{}, fmt.Errorf("look up channel: another one came: %w", errNoPlace)
	}
	ch := channelOf(d, 0)
	f.cache.keepChannel(ch, since)
	return ch, nil
}

// member asks what a guild knows of a user. The error wraps errNoPlace when he is no member.
func (f finder) member(ctx context.Context, guild, user snowflake) (person, error) {
	var d memberData
	if err := f.ask(ctx, discordgo.EndpointGuildMember(guild.String(), user.String()), &d); err != nil {
		return person{}, fmt.Errorf("look up member: %w", err)
	}
	return person{id: user, roles: d.Roles, mutedUntil: d.MutedUntil}, nil
}

// inThread asks whether a user was added to a thread.
func (f finder) inThread(ctx context.Context, thread, user snowflake) (bool, error) {
	err := f.ask(ctx, discordgo.EndpointThreadMember(thread.String(), user.String()), nil)
	switch {
	case errors.Is(err, errNoPlace):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up member of thread: %w", err)
	}
	return true, nil
}

// ask is a GET. The error wraps errNoPlace when Discord's answer is no, for good; what cannot be known
// now, because Discord is busy, broken or out of reach, is errUnknownYet. It is not put again: whoever
// asks knows what else waits for the answer.
func (f finder) ask(ctx context.Context, endpoint string, out any) error {
	err := f.api.Do(ctx, http.MethodGet, endpoint, nil, out)
	var fault *call.Fault
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault):
		return err
	case fault.Sent != call.Refused || fault.Limited():
		return fmt.Errorf("%w: %w", errUnknownYet, err)
	case fault.Status == http.StatusUnauthorized: // about the bot, not about what was asked
		return err
	}
	return fmt.Errorf("%w: %w", errNoPlace, err)
}

// patiently puts a question again for up to askWithin while the answer is not known yet.
func patiently[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	again := backoff.Backoff{First: askAgain, Max: askWithin}
	for {
		answer, err := question(ctx)
		if !errors.Is(err, errUnknownYet) {
			return answer, err
		}
		wait := max(again.Next(), call.FaultOf(err).RetryAfter)
		if end, _ := ctx.Deadline(); time.Until(end) <= wait || !backoff.Pause(ctx, wait) {
			return answer, err
		}
	}
}
