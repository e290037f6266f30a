package facts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
)

// Knows reports whether a stored fact lets the instance act on the chat with p. It asks no platform.
func (fs *Facts) Knows(ctx context.Context, i relay.InstanceID, p platforms.Bot, chat relay.ChatID) bool {
	bot := p.ID()
	if _, ok, err := fs.Conversation(ctx, i, relay.Chat{Bot: bot, ID: chat}); ok && err == nil {
		return true
	}
	if g, ok, err := fs.Covering(ctx, relay.Place{Platform: bot.Platform, Chat: chat}); ok && err == nil && g.Instance == i {
		return true
	}
	direct, err := fs.direct(ctx, i, p, chat)
	return err == nil && len(direct) > 0
}

// Act gathers the facts that decide whether the instance may act on chat with p. It leaves out the facts that no longer
// matter after those before.
func (fs *Facts) Act(ctx context.Context, i relay.InstanceID, p platforms.Bot, chat relay.ChatID) (gate.ActFacts, error) {
	f := gate.ActFacts{Now: time.Now()}
	if chat == "" {
		return f, nil
	}
	bot := p.ID()
	chat, err := fs.CurrentChat(ctx, bot.Platform, chat)
	if err != nil {
		return f, err
	}
	direct, err := fs.direct(ctx, i, p, chat)
	if f.DirectWithBound = len(direct) > 0; err != nil || f.DirectWithBound {
		return f, err // no further fact is needed
	}
	place := relay.Place{Platform: bot.Platform, Chat: chat}
	c, known, err := fs.Conversation(ctx, i, relay.Chat{Bot: bot, ID: chat})
	if err != nil {
		return f, err
	}
	if known {
		place.Scope, place.Parent = c.Scope, c.Parent
	}
	if f.HoldsGrant, err = fs.holds(ctx, i, p, place, known); err != nil {
		return f, err
	}
	if known && !f.HoldsGrant {
		if f, err = fs.talkFacts(ctx, c); err != nil {
			return f, err
		}
	}
	if f.Stands() {
		f.PersonSees, err = fs.personSees(ctx, p, place, c)
		f.Unsaid = !f.PersonSees && fs.Visible.Unsaid(visibility.Of{Bot: c.Bot, Place: place, User: c.By})
	}
	return f, err
}

// talkFacts returns the facts that follow from a conversation, except who sees its chat.
func (fs *Facts) talkFacts(ctx context.Context, c store.Conversation) (gate.ActFacts, error) {
	bound, err := fs.Bound(ctx, c.Instance, c.Bot.Platform, c.By)
	return gate.ActFacts{Now: time.Now(), Conversation: true, ConversationAt: c.LastAt, JustificationStands: bound}, err
}

// holds reports whether the instance holds the grant covering place. known says that place is complete; otherwise only
// its chat is known, and the platform is asked for the rest. The platform is asked only if the instance holds some
// grant on it, so that no other instance can cause such requests. If the platform does not know the place either, only
// a grant that names the chat counts.
func (fs *Facts) holds(ctx context.Context, i relay.InstanceID, p platforms.Bot, place relay.Place, known bool) (bool, error) {
	if !known {
		some, err := fs.Grants(ctx, store.GrantFilter{Instance: i, Platform: place.Platform, Limit: 1})
		if err != nil || len(some) == 0 {
			return false, err
		}
		if place, known = Locate(ctx, p, place); !known {
			naming, err := fs.Grants(ctx, store.GrantFilter{Platform: place.Platform, Chat: place.Chat})
			return slices.ContainsFunc(naming, func(g store.Grant) bool { return g.Instance == i && g.Chat == place.Chat }), err
		}
	}
	g, ok, err := fs.Covering(ctx, place)
	return ok && g.Instance == i, err
}

// Alone reports whether nobody but the instance may act on the chat. It asks no network who can see the chat: an
// instance counts if it might be allowed.
func (fs *Facts) Alone(ctx context.Context, i relay.InstanceID, p platforms.Bot, chat relay.ChatID) (bool, error) {
	if held, err := fs.heldByOther(ctx, i, p, chat); err != nil || held {
		return false, err
	}
	direct, err := fs.direct(ctx, "", p, chat)
	if err != nil || slices.ContainsFunc(direct, func(b store.Binding) bool { return b.Instance != i }) {
		return false, err
	}
	talks, err := fs.Conversations(ctx, store.ConversationFilter{Chat: relay.Chat{Bot: p.ID(), ID: chat}})
	if err != nil {
		return false, err
	}
	for _, c := range talks {
		if c.Instance == i {
			continue
		}
		if f, err := fs.talkFacts(ctx, c); err != nil || f.Stands() {
			return false, err
		}
	}
	return true, nil
}

// heldByOther reports whether another instance holds the grant covering the chat, or might, if nobody knows the chat's
// place.
func (fs *Facts) heldByOther(ctx context.Context, i relay.InstanceID, p platforms.Bot, chat relay.ChatID) (bool, error) {
	place := relay.Place{Platform: p.ID().Platform, Chat: chat}
	c, known, err := fs.Conversation(ctx, i, relay.Chat{Bot: p.ID(), ID: chat})
	if err != nil {
		return false, err
	}
	if known {
		place.Scope, place.Parent = c.Scope, c.Parent
	} else if place, known = Locate(ctx, p, place); !known {
		may, err := fs.Grants(ctx, store.GrantFilter{Platform: place.Platform, Chat: chat})
		return slices.ContainsFunc(may, func(g store.Grant) bool { return g.Instance != i }), err
	}
	g, ok, err := fs.Covering(ctx, place)
	return ok && g.Instance != i, err
}

// personSees reports whether the person who justified the conversation sees its chat now.
func (fs *Facts) personSees(ctx context.Context, p platforms.Bot, place relay.Place, c store.Conversation) (bool, error) {
	if c.Type == relay.ChatDM {
		if shared, err := platforms.Shared(ctx, p, place.Chat, c.By); err != nil || !shared {
			return err == nil, err
		}
	}
	sees, err := fs.Visible.Ask(ctx, p, visibility.Of{Bot: c.Bot, Place: place, User: c.By}, time.Now().Add(visibility.Within))
	if err == nil {
		return sees, nil
	}
	if muted, ok := errors.AsType[*platforms.MutedError](err); ok {
		return false, relay.Penalty(time.Until(muted.Until), err)
	}
	return false, relay.Later("whether the person can see the chat is not known yet", err)
}

// locateWithin is how long a network may take to say in which place a chat is.
const locateWithin = 5 * time.Second

// Locate returns the place, of which only the chat is known, completed by p's network; false if p does not know it.
func Locate(ctx context.Context, p platforms.Bot, place relay.Place) (relay.Place, bool) {
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
