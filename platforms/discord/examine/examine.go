// Package examine asks Discord about a bot, and changes nothing.
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

// permissions are those that our bot uses, and no more: to see channels and their history, to write, with files and
// reactions, and to make, name and use threads. The right to embed links is not among them: without it Discord shows no
// previews, and most bots should show none. An operator who sets "previews" grants that right themselves.
const permissions = discordgo.PermissionViewChannel | discordgo.PermissionReadMessageHistory | discordgo.PermissionSendMessages |
	discordgo.PermissionAttachFiles | discordgo.PermissionAddReactions |
	discordgo.PermissionSendMessagesInThreads | discordgo.PermissionCreatePublicThreads

const (
	portal    = "https://discord.com/developers/applications/"
	fixToken  = "make a new token in the developer portal (Bot, Reset Token), put it into the bot's token file, then run `hermes-connector reload`"
	fixIntent = ", Bot, Privileged Gateway Intents: switch Message Content Intent on and save"
)

// The flags of an application with the Message Content Intent. One of them must be set: the limited one is for bots in
// few guilds, which need no approval of Discord's.
const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19
)

// Examiner asks Discord about one bot. It implements platforms.Examiner and Stander.
type Examiner struct {
	bot  relay.Bot
	rest *rest.Client
	own  bool // the API is at a configured api_base
}

// New makes the Examiner of a bot.
func New(bot relay.Bot, r *rest.Client, own bool) Examiner { return Examiner{bot, r, own} }

// Examine implements platforms.Examiner. It cannot notice that two processes use the bot's token: Discord does not say
// so, and each process gets every message.
func (e Examiner) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: e.bot.String(), Network: "Discord", Host: httpcall.HostOf(e.rest.Base), Own: e.own}
	began := time.Now()
	defer func() { out.Clock = e.rest.Clock(began) }()
	say := func(f finding.Finding) { out.Findings = append(out.Findings, f) }
	var me guilds.User
	switch err := e.rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"users/@me", nil, &me); {
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
	if err := e.rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"applications/@me", nil, &app); err != nil {
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	}
	at := portal + app.ID.String()
	out.Invite = inviteOf(app.ID)
	if app.Flags&(flagContent|flagContentLimited) == 0 {
		say(finding.IntentOff.Of(asked.About, "the Message Content Intent is switched off", at+"/bot"+fixIntent))
	}
	if app.Endpoint != "" && !strings.HasSuffix(strings.TrimRight(app.Endpoint, "/"), platforms.HookPath(e.bot)) {
		say(finding.HookElsewhere.Of(asked.About, "slash commands and presses of buttons go to an interactions endpoint at "+httpcall.HostOf(app.Endpoint),
			at+"/information, Interactions Endpoint URL: empty it and save, or stop the program there"))
	}
	out.Findings = append(out.Findings, e.chats(ctx, asked, out.Invite, chats)...)
	return out
}

// chats finds in which of the granted chats the bot cannot hear or speak.
func (e Examiner) chats(ctx context.Context, asked httpcall.Asked, invite string, chats []relay.Place) []finding.Finding {
	known := e.afresh()
	ours := slices.DeleteFunc(slices.Clone(chats), func(c relay.Place) bool { return c.Platform != e.bot.Platform })
	return asked.EachChat(ctx, ours, func(c relay.Place) ([]finding.Finding, error) { return e.place(ctx, known, invite, c) })
}

// afresh returns a Guilds that knows nothing yet and asks Discord even after a remembered refusal: a fault found
// earlier may have been fixed since.
func (e Examiner) afresh() *guilds.Guilds { return guilds.New(e.bot, e.rest.Afresh()) }

// Stands implements platforms.Stander.
func (e Examiner) Stands(ctx context.Context, c relay.Place) ([]finding.Finding, error) {
	var app struct {
		ID guilds.ID `json:"id"`
	}
	if err := e.rest.Do(ctx, http.MethodGet, discordgo.EndpointAPI+"applications/@me", nil, &app); err != nil {
		return nil, err
	}
	return e.place(ctx, e.afresh(), inviteOf(app.ID), c)
}

// inviteOf returns the address at which people bring an application's bot into their servers.
func inviteOf(app guilds.ID) string {
	return "https://discord.com/oauth2/authorize?client_id=" + app.String() + "&scope=bot+applications.commands&permissions=" + strconv.FormatInt(permissions, 10)
}

// place returns what keeps the bot from hearing or speaking in a granted place; nil if nothing does.
func (e Examiner) place(ctx context.Context, known *guilds.Guilds, invite string, c relay.Place) ([]finding.Finding, error) {
	what := "channel " + string(c.Chat)
	if c.Chat == "" {
		what = "server " + string(c.Scope)
	}
	sees, sends, err := known.Rights(ctx, c)
	about := e.bot.String()
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
