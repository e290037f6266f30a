package signal

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// Examine implements platforms.Examiner: it checks that the daemon answers and has the account, and each claimed group.
func (p *Bot) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: p.bot.String(), Network: "signal-cli's daemon", Host: p.daemon.host()}
	var all []group
	err := p.daemon.call(ctx, "listGroups", nil, &all)
	switch f := httpcall.FaultOf(err); {
	case f.Detail == noAccount:
		out.Findings = append(out.Findings, finding.DeadToken.Of(asked.About, "the daemon at "+p.daemon.host()+" has no account "+p.account,
			"link it (`signal-cli link`) or register it as the user that the daemon runs as, and restart the daemon; this server tries again by itself"))
		return out
	case err != nil:
		found := asked.Unanswered(f)
		if f.Status == 0 {
			found.Fix = "start it: signal-cli daemon --http=" + p.daemon.host() + " --receive-mode=on-connection; `hermes-connector help signal` shows a service for it"
		}
		out.Findings = append(out.Findings, found)
		return out
	}
	out.Name = p.account
	for _, chat := range chats {
		out.Findings = append(out.Findings, p.stands(all, chat)...)
	}
	return out
}

// Stands implements platforms.Stander.
func (p *Bot) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	id, shared := groupIn(place.Chat)
	if !shared {
		return nil, nil
	}
	g, err := p.group(ctx, id)
	return p.stands([]group{g}, place), err
}

// stands returns the findings about the account in a place, from the daemon's list of groups.
func (p *Bot) stands(all []group, place relay.Place) []finding.Finding {
	id, shared := groupIn(place.Chat)
	at := slices.IndexFunc(all, func(g group) bool { return g.ID == id })
	switch {
	case !shared:
	case at < 0 || !all[at].Within:
		return []finding.Finding{finding.NotInChat.Of(p.bot.String(), "the account is not a member of the claimed group "+string(place.Chat),
			"add it to the group, or take the claim back: hermes-connector scope list")}
	case all[at].Writes == "ONLY_ADMINS" && !all[at].admin(p.self()):
		return []finding.Finding{finding.NoSend.Of(p.bot.String(), "only admins may write in the claimed group "+string(place.Chat),
			"in that group: Group settings, Permissions, Send messages; or make the account an admin")}
	}
	return nil
}
