package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// route finds the bot a request is for. The frame's platform and bot id must be one of the
// session's identities; a frame that names neither is for the first identity, unless the chat is
// known to the instance on exactly one other, as known says. A foreign identity is declined like a foreign
// chat. sure is false when nobody knows the chat.
func (s *seat) route(r relay.Request, known func(platforms.Platform) (bool, error)) (p platforms.Platform, sure bool, err error) {
	if r.Platform == relay.RelayPlatform && s.said(r.Platform) {
		r.Platform = "" // an identity that stands for every bot names none
	}
	mine := slices.DeleteFunc(s.hub.fronted(s.identityList()), func(p platforms.Platform) bool {
		b := p.Bot()
		return r.Platform != "" && r.Platform != b.Platform || r.Bot != "" && r.Bot != b.ID
	})
	tagged := r.Platform != "" || r.Bot != ""
	switch {
	case len(mine) > 0 && (tagged || len(mine) == 1):
		return mine[0], true, nil
	case tagged && !(s.said(r.Platform) && len(s.hub.fronted([]relay.Bot{{Platform: r.Platform}})) == 0):
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

// unhosted is the answer to an action on a platform the gateway fronts but this connector does
// not host.
func unhosted(r relay.Request) error {
	name := r.Platform
	if name == "" {
		name = relay.RelayPlatform
	}
	return relay.Invalid(r.Action.Op(), "no bot of platform "+string(name)+" is hosted here")
}

// fronted are the hosted bots behind the identities of a session's hellos, in that order. An
// identity without a bot id stands for every bot of its platform, "relay" for every bot.
func (h *Hub) fronted(ids []relay.Bot) []platforms.Platform {
	var out []platforms.Platform
	for _, id := range ids {
		for _, p := range h.bots {
			if standsFor(id, p.Bot()) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// actFacts gathers what decides whether instance may act on chat with p.
func (h *Hub) actFacts(ctx context.Context, instance relay.InstanceID, p platforms.Platform, chat relay.ChatID) (gate.ActFacts, error) {
	f := gate.ActFacts{Now: time.Now()}
	if chat == "" {
		return f, nil
	}
	bot := p.Bot()
	chat, err := h.chatNow(ctx, p, chat)
	if err != nil {
		return f, err
	}
	bindings, err := h.db.BindingsTo(ctx, instance)
	if err != nil {
		return f, err
	}
	if f.DirectWithBound = directWith(p, bindings, chat); f.DirectWithBound {
		return f, nil // nothing else needs to be known
	}
	place := relay.Place{Platform: bot.Platform, Chat: chat}
	c, known, err := h.db.Conversation(ctx, instance, relay.Chat{Bot: bot, ID: chat})
	if err != nil {
		return f, err
	}
	if known {
		place.Scope, place.Parent = c.Scope, c.Parent
	}
	if f.HoldsGrant, err = h.holds(ctx, instance, p, place, known); err != nil {
		return f, err
	}
	if known && !f.HoldsGrant {
		f = conversationFacts(c, bindings)
	}
	if f.Stands() {
		f.PersonSees, err = h.personSees(ctx, p, place, c)
	}
	return f, err
}

// personSees reports whether the person who justified the conversation sees its chat now.
func (h *Hub) personSees(ctx context.Context, p platforms.Platform, place relay.Place, c store.Conversation) (bool, error) {
	if c.Type == relay.ChatDM {
		return true, nil
	}
	sees, err := h.visible.sees(ctx, p, sight{c.Bot, place, c.By}, time.Now().Add(visibleWithin))
	if err == nil {
		return sees, nil
	}
	out := &relay.ActionError{Outcome: relay.NotSent, Public: "network: whether the person can see the chat is not known yet", Err: err}
	var muted *platforms.MutedError
	if errors.As(err, &muted) {
		out.RetryAfter = time.Until(muted.Until)
	}
	return false, out
}

// locateWithin bounds the question where a chat stands.
const locateWithin = 5 * time.Second

// holds reports whether instance holds the grant covering place. A place that is not known but for
// its chat is completed by the platform, which is asked only for an instance that holds some grant
// there: others cannot make it ask. Where the platform does not know either, the chat counts as
// outside of every scope and thread, and only a grant that names it counts.
func (h *Hub) holds(ctx context.Context, instance relay.InstanceID, p platforms.Platform, place relay.Place, known bool) (bool, error) {
	if !known {
		mine, err := h.db.GrantsTo(ctx, instance)
		if err != nil {
			return false, err
		}
		mine = slices.DeleteFunc(mine, func(g store.Grant) bool { return g.Platform != place.Platform })
		if len(mine) == 0 {
			return false, nil
		}
		if place, known = locate(ctx, p, place); !known {
			return slices.ContainsFunc(mine, func(g store.Grant) bool { return g.Chat == place.Chat }), nil
		}
	}
	g, ok, err := h.db.GrantCovering(ctx, place)
	return ok && g.Instance == instance, err
}

// locate completes a place that is known by its chat only, if the platform knows it.
func locate(ctx context.Context, p platforms.Platform, place relay.Place) (relay.Place, bool) {
	l, ok := p.(platforms.Locator)
	if !ok {
		return place, false
	}
	ctx, cancel := context.WithTimeout(ctx, locateWithin)
	defer cancel()
	found, err := l.Locate(ctx, place.Chat)
	if err != nil {
		return place, false
	}
	return found, true
}

// directWith reports whether chat is a direct message with one of the people in bindings.
func directWith(p platforms.Platform, bindings []store.Binding, chat relay.ChatID) bool {
	var user relay.UserID
	direct := false
	if d, ok := p.(platforms.DirectChats); ok {
		user, direct = d.DirectUser(chat)
	}
	return slices.ContainsFunc(bindings, func(b store.Binding) bool {
		return b.Platform == p.Bot().Platform && (direct && b.User == user || b.DMChat != "" && b.DMChat == chat)
	})
}
