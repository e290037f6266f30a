package slack

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/socketmode"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// scopes are the permissions that the app's bot needs, as the manifest of `hermes-connector help slack` lists them.
var scopes = []string{
	"app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write", "groups:history",
	"groups:read", "im:history", "im:read", "mpim:history", "mpim:read", "reactions:write", "users:read",
}

const (
	appPages    = "https://api.slack.com/apps/"
	fixBotToken = ", Install App: copy the Bot User OAuth Token into the bot's token_file, then run `hermes-connector reload`"
	fixAppToken = ", Basic Information, App-Level Tokens: make one with the scope connections:write, put it into the bot's app_token_file, then run `hermes-connector reload`"
	fixProgram  = "stop the other program, or make an app of its own for it; this server looks again by itself"
)

// Examine implements platforms.Examiner: it checks the two tokens, the scopes, the socket, and each claimed channel.
func (p *Bot) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	at, err := url.Parse(cmp.Or(p.base, slackgo.APIURL))
	asked := httpcall.Asked{About: p.bot.String(), Network: "Slack", Own: p.base != ""}
	if err == nil {
		asked.Host = at.Host
	}
	page := appPages + string(p.bot.ID)
	began := time.Now()
	defer func() { out.Clock = p.writer.rest.Clock(began) }()
	say := func(f finding.Finding) { out.Findings = append(out.Findings, f) }
	me, err := p.writer.rest.Who(ctx)
	switch {
	case rest.BadCredentials(err):
		say(finding.DeadToken.Of(asked.About, "Slack does not accept the bot's token ("+httpcall.FaultOf(err).Message+")", page+fixBotToken))
		return out
	case err != nil:
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	case me.Bot == "":
		say(finding.OtherKind.Of(asked.About, "the token belongs to an account that is not a bot", page+fixBotToken))
		return out
	}
	out.Name = me.Handle
	if app, err := p.writer.rest.App(ctx, me.Bot); err == nil && app != "" && app != string(p.bot.ID) {
		say(finding.OtherKind.Of(asked.About, "the two tokens are of two apps: the bot's of "+app+", the app's own of "+string(p.bot.ID), page+fixBotToken))
		return out
	}
	if missing := missingScopes(me.Scopes); len(missing) > 0 {
		say(finding.NoPermission.Of(asked.About, "the app lacks the scopes "+strings.Join(missing, ", "),
			page+"/oauth, Scopes, Bot Token Scopes: add them, then Reinstall to Workspace"))
	}
	out.Findings = append(out.Findings, p.socketStands(ctx, asked, page)...)
	ours := slices.DeleteFunc(slices.Clone(chats), func(c relay.Place) bool { return c.Platform != Name || c.Chat == "" })
	out.Findings = append(out.Findings, asked.EachChat(ctx, ours, func(c relay.Place) ([]finding.Finding, error) { return p.Stands(ctx, c) })...)
	return out
}

// missingScopes returns the scopes that are not among granted; none if Slack does not say.
func missingScopes(granted []string) (missing []string) {
	for _, s := range scopes {
		if len(granted) > 0 && !slices.Contains(granted, s) {
			missing = append(missing, s)
		}
	}
	return missing
}

// socketStands returns the findings about faults that keep events from coming here. It asks Slack for the address of a
// socket, but does not use it.
func (p *Bot) socketStands(ctx context.Context, asked httpcall.Asked, page string) (out []finding.Finding) {
	if st := p.status.Get(); strings.HasPrefix(st.Reason, socketmode.OtherProgram) {
		out = append(out, finding.TwoPollers.Of(asked.About, socketmode.OtherProgram, fixProgram))
	}
	_, err := p.app.Ticket(ctx)
	switch {
	case err == nil:
	case rest.BadCredentials(err):
		out = append(out, finding.DeadToken.Of(asked.About, "Slack does not accept the app token ("+httpcall.FaultOf(err).Message+")", page+fixAppToken))
	case rest.RefusedWith(err, "missing_scope"):
		out = append(out, finding.NoPermission.Of(asked.About, "the app token may not open a socket ("+httpcall.FaultOf(err).Message+")", page+fixAppToken))
	default:
		out = append(out, asked.Unanswered(httpcall.FaultOf(err)))
	}
	return out
}

// Stands implements platforms.Stander.
func (p *Bot) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	if checkChat(place.Chat) != nil || direct(string(place.Chat)) {
		return nil, nil
	}
	about, chat := p.bot.String(), string(place.Chat)
	c, err := p.look(ctx, chat)
	switch {
	case rest.RefusedWith(err, unknownChannel...), err == nil && !c.IsMember:
		return []finding.Finding{finding.NotInChat.Of(about, "the bot is not in the claimed channel "+chat,
			"write `/invite @"+cmp.Or(p.status.Get().Name, "hermes")+"` in that channel; or, if it is no longer needed, release it: `hermes-connector chat list` shows whose it is")}, nil
	case err != nil:
		return nil, errors.New("not answered")
	case c.IsArchived:
		return []finding.Finding{finding.NoSend.Of(about, "the claimed channel "+chat+" is archived", "unarchive the channel in Slack; or release it: `hermes-connector chat list` shows whose it is")}, nil
	}
	return nil, nil
}
