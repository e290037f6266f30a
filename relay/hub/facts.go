package hub

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// Facts are what is stored that decides who gets an event and who may act on a chat. Each method takes a
// few records by key or index, however many others there are; *store.DB has them.
type Facts interface {
	Instances(ctx context.Context, ids ...relay.InstanceID) ([]store.Instance, error)
	Bindings(ctx context.Context, f store.BindingFilter) ([]store.Binding, error)
	Grants(ctx context.Context, f store.GrantFilter) ([]store.Grant, error)
	Conversations(ctx context.Context, f store.ConversationFilter) ([]store.Conversation, error)
	CurrentChat(ctx context.Context, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error)
}

var _ Facts = (*store.DB)(nil)

// conversation is what is stored about the instance and the chat; false when no event of the chat was delivered to it.
func (h *Hub) conversation(ctx context.Context, i relay.InstanceID, c relay.Chat) (store.Conversation, bool, error) {
	return store.First(h.facts.Conversations(ctx, store.ConversationFilter{Instance: i, Chat: c}))
}

// covering is the grant that covers the place; false when nobody holds it.
func (h *Hub) covering(ctx context.Context, place relay.Place) (store.Grant, bool, error) {
	return store.First(h.facts.Grants(ctx, store.GrantFilter{Covering: &place}))
}

// someWatchers is how many of the people bound to an instance are read at once.
const someWatchers = 64

// watchers are the people bound to the instance of whom one must see c before a stranger's event there
// reaches it: who was heard there last, and then all others, read a few at a time.
func (h *Hub) watchers(ctx context.Context, i relay.InstanceID, c relay.Chat) iter.Seq2[relay.UserID, error] {
	return func(yield func(relay.UserID, error) bool) {
		talk, known, err := h.conversation(ctx, i, c)
		heard := false
		if err == nil && known {
			heard, err = h.isBound(ctx, i, c.Bot.Platform, talk.By)
		}
		if (err != nil || heard) && !yield(talk.By, err) || err != nil {
			return
		}
		for f := (store.BindingFilter{Instance: i, Platform: c.Bot.Platform, Limit: someWatchers}); ; {
			some, err := h.facts.Bindings(ctx, f)
			if err != nil {
				yield("", err)
				return
			}
			for _, b := range some {
				if (!heard || b.User != talk.By) && !yield(b.User, nil) {
					return
				}
			}
			if len(some) < someWatchers {
				return
			}
			f.After = some[len(some)-1].User
		}
	}
}

// isBound reports whether the person's messages go to the instance.
func (h *Hub) isBound(ctx context.Context, i relay.InstanceID, p relay.PlatformID, u relay.UserID) (bool, error) {
	if u == "" {
		return false, nil
	}
	bs, err := h.facts.Bindings(ctx, store.BindingFilter{Platform: p, User: u, Instance: i})
	return len(bs) > 0, err
}

// direct are the bindings of the people whose direct messages with p the chat is: those to the instance, or
// to all of them if i is empty.
func (h *Hub) direct(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) ([]store.Binding, error) {
	platform := p.Bot().Platform
	out, err := h.facts.Bindings(ctx, store.BindingFilter{Instance: i, Platform: platform, DMChat: chat})
	d, tells := p.(platforms.DirectChats)
	if err != nil || !tells {
		return out, err
	}
	user, direct := d.DirectUser(chat)
	if !direct || user == "" {
		return out, nil
	}
	by, err := h.facts.Bindings(ctx, store.BindingFilter{Instance: i, Platform: platform, User: user})
	return append(out, by...), err
}

// knows reports whether something is stored that lets the instance act on the chat with p. No platform is asked.
func (h *Hub) knows(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) bool {
	bot := p.Bot()
	if _, ok, err := h.conversation(ctx, i, relay.Chat{Bot: bot, ID: chat}); ok && err == nil {
		return true
	}
	if g, ok, err := h.covering(ctx, relay.Place{Platform: bot.Platform, Chat: chat}); ok && err == nil && g.Instance == i {
		return true
	}
	direct, err := h.direct(ctx, i, p, chat)
	return err == nil && len(direct) > 0
}

// actFacts gathers what decides whether the instance may act on chat with p.
func (h *Hub) actFacts(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) (gate.ActFacts, error) {
	f := gate.ActFacts{Now: time.Now()}
	if chat == "" {
		return f, nil
	}
	bot := p.Bot()
	chat, err := h.facts.CurrentChat(ctx, bot.Platform, chat)
	if err != nil {
		return f, err
	}
	direct, err := h.direct(ctx, i, p, chat)
	if f.DirectWithBound = len(direct) > 0; err != nil || f.DirectWithBound {
		return f, err // nothing else needs to be known
	}
	place := relay.Place{Platform: bot.Platform, Chat: chat}
	c, known, err := h.conversation(ctx, i, relay.Chat{Bot: bot, ID: chat})
	if err != nil {
		return f, err
	}
	if known {
		place.Scope, place.Parent = c.Scope, c.Parent
	}
	if f.HoldsGrant, err = h.holds(ctx, i, p, place, known); err != nil {
		return f, err
	}
	if known && !f.HoldsGrant {
		if f, err = h.talkFacts(ctx, c); err != nil {
			return f, err
		}
	}
	if f.Stands() {
		f.PersonSees, err = h.personSees(ctx, p, place, c)
	}
	return f, err
}

// talkFacts are the facts that a conversation speaks for, but for who sees its chat.
func (h *Hub) talkFacts(ctx context.Context, c store.Conversation) (gate.ActFacts, error) {
	bound, err := h.isBound(ctx, c.Instance, c.Bot.Platform, c.By)
	return gate.ActFacts{Now: time.Now(), Conversation: true, ConversationAt: c.LastAt, JustificationStands: bound}, err
}

// holds reports whether the instance holds the grant covering place. If only the chat of the place is known, the
// platform completes it, which is asked only for an instance that holds some grant there: no other can make it ask.
// Where the platform does not know either, only a grant that names the chat counts.
func (h *Hub) holds(ctx context.Context, i relay.InstanceID, p platforms.Platform, place relay.Place, known bool) (bool, error) {
	if !known {
		some, err := h.facts.Grants(ctx, store.GrantFilter{Instance: i, Platform: place.Platform, Limit: 1})
		if err != nil || len(some) == 0 {
			return false, err
		}
		if place, known = locate(ctx, p, place); !known {
			naming, err := h.facts.Grants(ctx, store.GrantFilter{Platform: place.Platform, Chat: place.Chat})
			return slices.ContainsFunc(naming, func(g store.Grant) bool { return g.Instance == i && g.Chat == place.Chat }), err
		}
	}
	g, ok, err := h.covering(ctx, place)
	return ok && g.Instance == i, err
}

// alone reports whether nobody but the instance may act on the chat. No network is asked who can see the chat: an
// instance that may turn out to be allowed counts.
func (h *Hub) alone(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) (bool, error) {
	if held, err := h.heldByOther(ctx, i, p, chat); err != nil || held {
		return false, err
	}
	direct, err := h.direct(ctx, "", p, chat)
	if err != nil || slices.ContainsFunc(direct, func(b store.Binding) bool { return b.Instance != i }) {
		return false, err
	}
	talks, err := h.facts.Conversations(ctx, store.ConversationFilter{Chat: relay.Chat{Bot: p.Bot(), ID: chat}})
	if err != nil {
		return false, err
	}
	for _, c := range talks {
		if c.Instance == i {
			continue
		}
		if f, err := h.talkFacts(ctx, c); err != nil || f.Stands() {
			return false, err
		}
	}
	return true, nil
}

// heldByOther reports whether another instance holds the grant covering the chat, or may, where nobody can place it.
func (h *Hub) heldByOther(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) (bool, error) {
	place := relay.Place{Platform: p.Bot().Platform, Chat: chat}
	c, known, err := h.conversation(ctx, i, relay.Chat{Bot: p.Bot(), ID: chat})
	if err != nil {
		return false, err
	}
	if known {
		place.Scope, place.Parent = c.Scope, c.Parent
	} else if place, known = locate(ctx, p, place); !known {
		may, err := h.facts.Grants(ctx, store.GrantFilter{Platform: place.Platform, Chat: chat})
		return slices.ContainsFunc(may, func(g store.Grant) bool { return g.Instance != i }), err
	}
	g, ok, err := h.covering(ctx, place)
	return ok && g.Instance != i, err
}
