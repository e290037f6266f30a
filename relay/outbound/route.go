package outbound

import (
	"cmp"
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// route finds the bot for a request. A platform and a bot id in the frame must be one of the session's identities; a
// foreign bot is declined like a foreign chat. A frame that names neither is for the first identity. known tells whether
// a bot knows the request's chat: if it returns true for exactly one other identity, the frame is for that one, and if it
// returns false for each, sure is false. Every session also serves the bot of programs, after all others: a program's
// chat is found there if known returns true for it.
func (who *Caller) route(r relay.Request, known func(platforms.Bot) (bool, error)) (p platforms.Bot, sure bool, err error) {
	p, sure, err = who.routeOwn(r, known)
	programs := who.out.bots.Bot(relay.ProgramBot())
	if _, _, chat := relay.ProgramIn(r.Action.Target()); !chat || programs == nil || p == programs {
		return p, sure, err
	}
	if b := programs.ID(); r.Platform != "" && r.Platform != b.Platform && r.Platform != relay.RelayPlatform || r.Bot != "" && r.Bot != b.ID {
		return p, sure, err
	}
	if p != nil && err == nil {
		if mine, err := known(p); err != nil || mine {
			return p, sure, err
		}
	}
	if its, err2 := known(programs); err2 != nil || its {
		return programs, true, err2
	}
	return p, sure, err
}

// routeOwn is route, but only among the bots of the session's identities.
func (who *Caller) routeOwn(r relay.Request, known func(platforms.Bot) (bool, error)) (p platforms.Bot, sure bool, err error) {
	if r.Platform == relay.RelayPlatform && who.said(r.Platform) {
		r.Platform = "" // an identity that stands for every bot names none
	}
	mine := slices.DeleteFunc(who.out.bots.Fronted(who.attachment.Identities()), func(p platforms.Bot) bool {
		b := p.ID()
		return r.Platform != "" && r.Platform != b.Platform || r.Bot != "" && r.Bot != b.ID
	})
	tagged := r.Platform != "" || r.Bot != ""
	switch {
	case len(mine) > 0 && (tagged || len(mine) == 1):
		return mine[0], true, nil
	// The session has no such bot. If a hello named the platform and no bot of it is hosted, the gateway is told that.
	case tagged && !(who.said(r.Platform) && len(who.out.bots.Fronted([]relay.Bot{{Platform: r.Platform}})) == 0):
		return nil, false, relay.Declined(r.Platform)
	case len(mine) == 0:
		return nil, false, unhosted(r)
	}
	p = mine[0]
	for _, bot := range mine {
		ok, err := known(bot)
		if err != nil {
			return nil, false, err
		}
		if ok && sure {
			return mine[0], true, nil
		}
		if ok {
			p, sure = bot, true
		}
	}
	return p, sure, nil
}

// line returns the chat that r is about, however the frame spells the bot and the thread; see session.Action. No
// platform is asked: where only a platform could tell, frames with the same spelling share a line.
func (who *Caller) line(ctx context.Context, r relay.Request) relay.Chat {
	i, thread := who.instance, r.Action.Within()
	line := relay.Chat{Bot: relay.Bot{Platform: r.Platform, ID: r.Bot}, ID: r.Action.Target()}
	var p platforms.Bot
	if a, ok := r.Action.(relay.FollowUp); ok {
		c, _ := who.out.Capabilities.bound(ctx, who.tenant, i, a.Session, a.Kind)
		line, p, thread = relay.Chat{Bot: c.Bot, ID: c.Chat}, who.out.bots.Bot(c.Bot), a.Meta.ThreadID
	} else if bot, sure, err := who.route(r, func(p platforms.Bot) (bool, error) {
		return who.out.facts.Knows(ctx, i, p, line.ID), nil
	}); sure && err == nil {
		p, line.Bot = bot, bot.ID()
	}
	if _, ok := p.(platforms.Threader); ok && thread != "" {
		line.ID = relay.ChatID(thread)
	}
	if _, ok := r.Action.(relay.FollowUp); ok || p != nil { // also of a follow-up without a capability: see Caller.followUp
		if now, err := who.out.facts.CurrentChat(ctx, line.Bot.Platform, line.ID); err == nil {
			line.ID = now
		}
	}
	return line
}

// unhosted returns the answer to an action on a platform that the gateway fronts and this connector does not host.
func unhosted(r relay.Request) error {
	return relay.Invalid(r.Action.Op(), "no bot of platform "+string(cmp.Or(r.Platform, relay.RelayPlatform))+" is hosted here")
}

// said reports whether a hello named the platform.
func (who *Caller) said(p relay.PlatformID) bool {
	return slices.ContainsFunc(who.attachment.Identities(), func(b relay.Bot) bool { return b.Platform == p })
}

// speaksOf returns the platform a request is about, as the gateway sees it: the frame's, else its first identity's.
func (who *Caller) speaksOf(r relay.Request) relay.PlatformID {
	if ids := who.attachment.Identities(); r.Platform == "" && len(ids) > 0 {
		return ids[0].Platform
	}
	return r.Platform
}
