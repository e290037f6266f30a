package matrix

import (
	"context"
	"net/url"
	"strings"
	"time"

	"maunium.net/go/mautrix/event"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

const fixToken = "log in as the bot again (`hermes-connector help matrix` shows how), write the new access token into the bot's token file, then run `hermes-connector reload`"

// Examine implements platforms.Examiner: it checks whose token the bot has, and each claimed room.
func (p *asker) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	began := time.Now()
	defer func() { out.Clock = p.client.calls.Clock(began) }()
	asked := httpcall.Asked{About: p.bot.String(), Network: "the homeserver", Host: hostOf(p.client.home), Own: p.base != ""}
	who, err := p.whoami(ctx)
	switch {
	case refusedToken(err):
		out.Findings = append(out.Findings, finding.DeadToken.Of(asked.About, "the homeserver does not accept the token ("+httpcall.FaultOf(err).Message+")", fixToken))
		return out
	case err != nil:
		out.Findings = append(out.Findings, asked.Unanswered(httpcall.FaultOf(err)))
		return out
	case who != string(p.me):
		out.Findings = append(out.Findings, finding.OtherKind.Of(asked.About, "the token is one of "+relay.Shown(who)+", and user_id says "+string(p.me),
			"correct user_id in connector.toml, or "+fixToken))
		return out
	}
	out.Name = strings.TrimPrefix(who, "@")
	out.Invite = "https://matrix.to/#/" + url.PathEscape(who)
	out.Findings = asked.EachChat(ctx, chats, func(place relay.Place) ([]finding.Finding, error) { return p.Stands(ctx, place) })
	return out
}

// hostOf returns the host of a homeserver, or its name.
func hostOf(home string) string {
	if u, err := url.Parse(home); err == nil && u.Host != "" {
		return u.Host
	}
	return home
}

// Stands implements platforms.Stander.
func (p *asker) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	about, room := p.bot.String()+" "+string(place.Chat), string(place.Chat)
	if !isRoom(room) {
		return nil, nil
	}
	is, err := p.membership(ctx, place.Chat, string(p.me))
	switch {
	case refusedForGood(err), err == nil && is != event.MembershipJoin:
		return []finding.Finding{finding.NotInChat.Of(about, "the bot is not in the claimed room "+room,
			"invite "+string(p.me)+" into it; or, if the room is no longer needed, release it: `hermes-connector chat list` shows whose it is")}, nil
	case err != nil:
		return nil, err
	}
	err = p.ask(ctx, "encryption", place.Chat, inRoom(place.Chat, "state", event.StateEncryption.Type, ""), nil, nil)
	switch {
	case err == nil:
		return []finding.Finding{finding.NoSend.Of(about, "the claimed room "+room+" is encrypted, and this program neither reads nor writes there",
			"invite the bot into a room without encryption, and claim that")}, nil
	case !refusedAs(err, errNotFound):
		return nil, err
	}
	power, err := p.power(ctx, place.Chat)
	if err != nil && !refusedAs(err, errNotFound) {
		return nil, err
	}
	if power.GetUserLevel(p.me) < power.GetEventLevel(event.EventMessage) {
		return []finding.Finding{finding.NoSend.Of(about, "the bot may not send messages in the claimed room "+room,
			"in that room's settings, under Roles & Permissions, let its members send messages, or give the bot more power")}, nil
	}
	return nil, nil
}
