package guilds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// AskWithin bounds the questions of somebody who keeps others waiting, repetitions included.
const AskWithin = 5 * time.Second

// askAgain is the first pause before a question that failed is put again, where it is.
const askAgain = 250 * time.Millisecond

var (
	// errNoPlace: Discord says that there is no such guild, channel or member, or that the bot
	// may not know.
	errNoPlace = errors.New("not there, or not for the bot to see")
	// ErrUnknownYet: what must be known could not be looked up now; later it may.
	ErrUnknownYet = errors.New("could not be looked up")
)

// api is the part of the REST client the lookups need.
type api interface {
	Do(ctx context.Context, method, endpoint string, body, out any) error
}

// Guilds knows guilds and channels: from what the gateway told, or else by asking Discord. A process that resumes its
// predecessor's session knows nothing at first, and archived threads are never told of. It remembers no failure.
// Methods may be called from any goroutine.
//
// It implements platforms.Roster, Manager, Locator, Threader, DirectChats and AuthorTeller.
type Guilds struct {
	platform relay.PlatformID
	cache    *cache
	api      api
}

// New makes the Guilds of a bot; api is how it asks Discord.
func New(bot relay.Bot, api api) *Guilds { return &Guilds{bot.Platform, newCache(bot), api} }

// Me is the bot's id; 0 when it has none of Discord's.
func (f *Guilds) Me() ID { return f.cache.me }

// Apply learns from a dispatch and returns whose view of what may have changed. Kinds it does not
// know are nothing. A payload that makes no sense could have hidden a channel from somebody: then
// everything is forgotten, and the change returned beside the error is about everything.
func (f *Guilds) Apply(kind string, data []byte) ([]platforms.RosterChange, error) {
	return f.cache.apply(kind, data)
}

// LearnDirect remembers whom the bot talks to in ch, if that is a direct-message channel: Discord
// tells of those only by what happens in them.
func (f *Guilds) LearnDirect(ch Channel, with ID) {
	if _, known := f.cache.channel(ch.ID); known || ch.Kind != discordgo.ChannelTypeDM {
		return
	}
	ch.Recipient = with
	f.cache.keepChannel(ch, f.cache.now())
}

// Guild finds a guild. The error wraps errNoPlace when Discord's answer is no.
func (f *Guilds) Guild(ctx context.Context, id ID) (Guild, error) {
	if g, ok := f.cache.guild(id); ok {
		return g, nil
	}
	since := f.cache.now()
	var d guildData
	if err := f.ask(ctx, discordgo.EndpointGuild(id.String()), &d); err != nil {
		return Guild{}, fmt.Errorf("look up guild: %w", err)
	}
	if d.ID != id {
		return Guild{}, fmt.Errorf("look up guild: another one came: %w", errNoPlace)
	}
	g := f.cache.guildOf(d)
	f.cache.keepGuild(g, since)
	return g, nil
}

// Channel finds a channel, thread or direct-message channel. The error wraps errNoPlace when
// Discord's answer is no.
func (f *Guilds) Channel(ctx context.Context, id ID) (Channel, error) {
	if ch, ok := f.cache.channel(id); ok {
		return ch, nil
	}
	if id == 0 {
		return Channel{}, errNoPlace
	}
	since := f.cache.now()
	var d ChannelData
	if err := f.ask(ctx, discordgo.EndpointChannel(id.String()), &d); err != nil {
		return Channel{}, fmt.Errorf("look up channel: %w", err)
	}
	if d.ID != id {
		return Channel{}, fmt.Errorf("look up channel: another one came: %w", errNoPlace)
	}
	ch := ChannelOf(d, 0)
	f.cache.keepChannel(ch, since)
	return ch, nil
}

// member asks what a guild knows of a user. The error wraps errNoPlace when he is no member.
func (f *Guilds) member(ctx context.Context, guild, user ID) (person, error) {
	var d memberData
	if err := f.ask(ctx, discordgo.EndpointGuildMember(guild.String(), user.String()), &d); err != nil {
		return person{}, fmt.Errorf("look up member: %w", err)
	}
	return person{id: user, roles: d.Roles, mutedUntil: d.MutedUntil}, nil
}

// inThread asks whether a user was added to a thread.
func (f *Guilds) inThread(ctx context.Context, thread, user ID) (bool, error) {
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
// now, because Discord is busy, broken or out of reach, is ErrUnknownYet. It is not put again: whoever
// asks knows what else waits for the answer.
func (f *Guilds) ask(ctx context.Context, endpoint string, out any) error {
	err := f.api.Do(ctx, http.MethodGet, endpoint, nil, out)
	var fault *call.Fault
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault):
		return err
	case fault.Sent != call.Refused || fault.Limited():
		return fmt.Errorf("%w: %w", ErrUnknownYet, err)
	case fault.Status == http.StatusUnauthorized: // about the bot, not about what was asked
		return err
	}
	return fmt.Errorf("%w: %w", errNoPlace, err)
}

// patiently puts a question again for up to AskWithin while the answer is not known yet.
func patiently[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, AskWithin)
	defer cancel()
	again := backoff.Backoff{First: askAgain, Max: AskWithin}
	for {
		answer, err := question(ctx)
		if !errors.Is(err, ErrUnknownYet) {
			return answer, err
		}
		wait := max(again.Next(), call.FaultOf(err).RetryAfter)
		if end, _ := ctx.Deadline(); time.Until(end) <= wait || !backoff.Pause(ctx, wait) {
			return answer, err
		}
	}
}
