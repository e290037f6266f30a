package guilds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// AskWithin bounds a question, with its repetitions, while others wait for the answer.
const AskWithin = 5 * time.Second

// askAgain is the first pause before a question that failed is asked again.
const askAgain = 250 * time.Millisecond

var (
	// errNoPlace: Discord says that the guild, channel or member does not exist, or that the bot may not know.
	errNoPlace = errors.New("not there, or not for the bot to see")
	// ErrUnknownYet: a look-up failed that may succeed later.
	ErrUnknownYet = errors.New("could not be looked up")
)

// LearnDirect remembers with whom the bot talks in ch, if that is a direct-message channel: the gateway does not report
// such channels.
func (c *Guilds) LearnDirect(ch Channel, with ID) {
	_, since, ok := known(c, c.channels, ch.ID)
	if ok || ch.Kind != discordgo.ChannelTypeDM {
		return
	}
	ch.Recipient = with
	keep(c, c.channels, ch.ID, ch, since)
}

// Guild finds a guild. The error wraps errNoPlace when Discord's answer is no.
func (c *Guilds) Guild(ctx context.Context, id ID) (Guild, error) {
	g, since, ok := known(c, c.guilds, id)
	if ok {
		return g, nil
	}
	var d guildData
	if err := c.ask(ctx, discordgo.EndpointGuild(id.String()), &d); err != nil {
		return Guild{}, fmt.Errorf("look up guild: %w", err)
	}
	if d.ID != id {
		return Guild{}, fmt.Errorf("look up guild: another one came: %w", errNoPlace)
	}
	g = c.withOwn(d.Guild)
	keep(c, c.guilds, id, g, since)
	return g, nil
}

// Channel finds a channel, thread or direct-message channel. The error wraps errNoPlace when
// Discord's answer is no.
func (c *Guilds) Channel(ctx context.Context, id ID) (Channel, error) {
	ch, since, ok := known(c, c.channels, id)
	switch {
	case ok:
		return ch, nil
	case id == 0:
		return Channel{}, errNoPlace
	}
	var d ChannelData
	if err := c.ask(ctx, discordgo.EndpointChannel(id.String()), &d); err != nil {
		return Channel{}, fmt.Errorf("look up channel: %w", err)
	}
	if d.ID != id {
		return Channel{}, fmt.Errorf("look up channel: another one came: %w", errNoPlace)
	}
	ch = ChannelOf(d, 0)
	keep(c, c.channels, id, ch, since)
	return ch, nil
}

// member asks a guild about a user. The error wraps errNoPlace if they are not a member.
func (c *Guilds) member(ctx context.Context, guild, user ID) (person, error) {
	var d memberData
	if err := c.ask(ctx, discordgo.EndpointGuildMember(guild.String(), user.String()), &d); err != nil {
		return person{}, fmt.Errorf("look up member: %w", err)
	}
	return person{id: user, roles: d.Roles, mutedUntil: d.MutedUntil}, nil
}

// inThread asks whether a user was added to a thread.
func (c *Guilds) inThread(ctx context.Context, thread, user ID) (bool, error) {
	err := c.ask(ctx, discordgo.EndpointThreadMember(thread.String(), user.String()), nil)
	switch {
	case errors.Is(err, errNoPlace):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up member of thread: %w", err)
	}
	return true, nil
}

// ask sends a GET request to Discord and decodes the answer into out. The error wraps errNoPlace when Discord's answer
// is no, and ErrUnknownYet while Discord is busy, broken or out of reach. The caller decides whether to ask again.
func (c *Guilds) ask(ctx context.Context, endpoint string, out any) error {
	err := c.api.Do(ctx, http.MethodGet, endpoint, nil, out)
	var fault *httpcall.Fault
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault):
		return err
	case fault.Sent != httpcall.Refused || fault.Limited():
		return fmt.Errorf("%w: %w", ErrUnknownYet, err)
	case fault.Status == http.StatusUnauthorized: // the error is about the bot, not about the question
		return err
	}
	return fmt.Errorf("%w: %w", errNoPlace, err)
}

// patiently asks a question again for up to AskWithin while the answer is not known yet.
func patiently[T any](ctx context.Context, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, AskWithin)
	defer cancel()
	again := backoff.Backoff{First: askAgain, Max: AskWithin}
	for {
		answer, err := question(ctx)
		if !errors.Is(err, ErrUnknownYet) {
			return answer, err
		}
		wait := max(again.Next(), httpcall.FaultOf(err).RetryAfter)
		if end, _ := ctx.Deadline(); time.Until(end) <= wait || !backoff.Pause(ctx, wait) {
			return answer, err
		}
	}
}

// maxFound is how many members of one guild Discord is asked for whose names begin with the searched name.
const maxFound = 100

// FindPeople implements platforms.PersonFinder: it returns the members of the bot's guilds whose account has the name
// handle.
func (c *Guilds) FindPeople(ctx context.Context, handle string) (out []relay.Source, err error) {
	var all []struct { // after a resume, some of the bot's guilds are not known here
		ID ID `json:"id"`
	}
	if err := c.ask(ctx, discordgo.EndpointUserGuilds("@me"), &all); err != nil {
		return nil, fmt.Errorf("list guilds: %w", err)
	}
	for _, guild := range all {
		var members []struct {
			Nick string `json:"nick"`
			User User   `json:"user"`
		}
		query := url.Values{"query": {handle}, "limit": {strconv.Itoa(maxFound)}}
		err := c.ask(ctx, discordgo.EndpointGuildMembersSearch(guild.ID.String())+"?"+query.Encode(), &members)
		if errors.Is(err, errNoPlace) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("search members: %w", err)
		}
		for _, m := range members {
			if strings.EqualFold(m.User.Username, handle) {
				out = append(out, relay.Source{
					Platform: c.platform, UserID: relay.UserID(m.User.ID.String()), UserHandle: m.User.Username,
					UserName: cmp.Or(m.Nick, m.User.GlobalName, m.User.Username),
				})
			}
		}
	}
	return out, nil
}
