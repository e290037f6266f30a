// Package examine asks Discord how a bot stands there, and changes nothing.
package examine

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// permissions are what a bot of ours uses, and no more: it sees channels and what was said in them, writes, with
// files and reactions, and makes, names and writes in threads. Without the right to embed links Discord shows no previews,
// which is what most bots are to have: who sets "previews" gives it themselves.
const permissions = discordgo.PermissionViewChannel | discordgo.PermissionReadMessageHistory | discordgo.PermissionSendMessages |
	discordgo.PermissionAttachFiles | discordgo.PermissionAddReactions |
	discordgo.PermissionSendMessagesInThreads | discordgo.PermissionCreatePublicThreads

const (
	portal    = "https://discord.com/developers/applications/"
	fixToken  = "make a new token in the developer portal (Bot, Reset Token), put it into the bot's token file, then run `hermes-connector reload`"
	fixIntent = ", Bot, Privileged Gateway Intents: switch Message Content Intent on and save"
)

// An application's flags, of which one must be set: bots in many guilds need Discord's approval.
const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19
)

// Bot is the bot that is examined.
type Bot struct {
	Bot  relay.Bot
	Rest *rest.Client
	Own  bool // the API is at a configured api_base
}

// Examine is platforms.Examiner's. That two processes have the bot's token Discord does not tell: each gets
// every message.
func (b Bot) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: b.Bot.String(), Network: "Discord", Host: httpcall.HostOf(b.Rest.Base), Own: b.Own}
	began := time.Now()
	defer func() { out.Clock = b.Rest.Clock(began) }()
	say := func(f finding.Finding) { out.Findings = append(out.Findings, f) }
	var me guilds.User
	switch err := b.Rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"users/@me", nil, &me); {
	case httpcall.FaultOf(err).Refused(http.StatusUnauthorized) && httpcall.FaultOf(err).Message != httpcall.NoAnswer:
		say(finding.DeadToken.Of(asked.About, "Discord does not accept the token", fixToken))
		return out
	case err != nil:
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	case !me.Bot:
		say(finding.OtherKind.Of(asked.About, "the token belongs to an account that is not a bot", fixToken))
		return out
	}
	out.Name = me.Username
	var app struct {
		ID       guilds.ID `json:"id"`
		Flags    int64     `json:"flags"`
		Endpoint string    `json:"interactions_endpoint_url"`
	}
	if err := b.Rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"applications/@me", nil, &app); err != nil {
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	}
	at := portal + app.ID.String()
	out.Invite = inviteOf(app.ID)
	if app.Flags&(flagContent|flagContentLimited) == 0 {
		say(finding.IntentOff.Of(asked.About, "the Message Content Intent is switched off", at+"/bot"+fixIntent))
	}
	if app.Endpoint != "" && !strings.HasSuffix(strings.TrimRight(app.Endpoint, "/"), platforms.HookPath(b.Bot)) {
		say(finding.HookElsewhere.Of(asked.About, "slash commands and presses of buttons go to an interactions endpoint at "+httpcall.HostOf(app.Endpoint),
			at+"/information, Interactions Endpoint URL: empty it and save, or stop the program there"))
	}
	out.Findings = append(out.Findings, b.chats(ctx, asked, out.Invite, chats)...)
	return out
}

// chats finds in which of the granted chats the bot cannot hear or speak.
func (b Bot) chats(ctx context.Context, asked httpcall.Asked, invite string, chats []relay.Place) []finding.Finding {
	known := b.afresh()
	ours := slices.DeleteFunc(slices.Clone(chats), func(c relay.Place) bool { return c.Platform != b.Bot.Platform })
	return asked.EachChat(ctx, ours, func(c relay.Place) ([]finding.Finding, error) { return b.place(ctx, known, invite, c) })
}

// afresh knows nothing yet: what was known or refused before may have been fixed since.
func (b Bot) afresh() *guilds.Guilds { return guilds.New(b.Bot, b.Rest.Afresh()) }

// Stands is platforms.Stander's.
func (b Bot) Stands(ctx context.Context, c relay.Place) ([]finding.Finding, error) {
	var app struct {
		ID guilds.ID `json:"id"`
	}
	if err := b.Rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"applications/@me", nil, &app); err != nil {
		return nil, err
	}
	return b.place(ctx, b.afresh(), inviteOf(app.ID), c)
}

// inviteOf is where people bring an application's bot into their servers.
func inviteOf(app guilds.ID) string {
	return "https://discord.com/oauth2/authorize?client_id=" + app.String() + "&scope=bot+applications.commands&permissions=" + strconv.FormatInt(permissions, 10)
}

// place finds whether the bot hears and speaks in a granted place.
func (b Bot) place(ctx context.Context, known *guilds.Guilds, invite string, c relay.Place) ([]finding.Finding, error) {
	what := "channel " + string(c.Chat)
	if c.Chat == "" {
		what = "server " + string(c.Scope)
	}
	sees, sends, err := known.Rights(ctx, c)
	about := b.Bot.String()
	switch {
	case err != nil:
		return nil, err
	case !sees && c.Chat == "":
		return []finding.Finding{finding.NotInChat.Of(about, "the bot is not in the claimed "+what, "invite it: "+invite)}, nil
	case !sees:
		return []finding.Finding{finding.NotInChat.Of(about, "the bot is not in the claimed "+what+", or may not see it",
			"give the bot's role View Channel there; if the bot is not in that server, invite it: "+invite)}, nil
	case !sends:
		return []finding.Finding{finding.NoSend.Of(about, "the bot may not send messages in the claimed "+what,
			"in Discord: Edit Channel, Permissions, and give the bot's role Send Messages")}, nil
	}
	return nil, nil
}
