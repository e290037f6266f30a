package hub

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
)

// Line is the chat r waits for: the bot's and the thread's that it is about, however the frame spells
// them; see session.Handler. It is decided from what is stored, as route does where the platform need
// not be asked. Where it must be, the line is that of the frames with the same spelling.
func (h *Hub) Line(ctx context.Context, ss *session.Session, r relay.Request) relay.Chat {
	s := h.seatOf(ss)
	var line relay.Chat
	var p platforms.Platform
	thread := relay.ThreadOf(r.Action)
	if a, ok := r.Action.(relay.FollowUp); ok {
		held, _, err := h.keeper.Bound(ctx, s.peer.Tenant, s.peer.Instance, a.Session, a.Kind)
		if err != nil {
			return line
		}
		line, p, thread = relay.Chat{Bot: held.Bot, ID: held.Chat}, h.platform(held.Bot), a.Meta.ThreadID
	} else {
		line = relay.Chat{Bot: relay.Bot{Platform: r.Platform, ID: r.Bot}, ID: r.Action.Target()}
		if p = h.lineBot(ctx, s, r); p != nil {
			line.Bot = p.Bot()
		}
	}
	if _, ok := p.(platforms.Threader); ok && thread != "" {
		line.ID = relay.ChatID(thread)
	}
	if p != nil {
		if now, err := h.chatNow(ctx, p, line.ID); err == nil {
			line.ID = now
		}
	}
	return line
}

// lineBot is the bot route will find, or nil where that cannot be told without the platform.
func (h *Hub) lineBot(ctx context.Context, s *seat, r relay.Request) platforms.Platform {
	named := h.named(s, r)
	if len(named) < 2 || r.Platform != "" && r.Platform != relay.RelayPlatform || r.Bot != "" {
		if len(named) == 0 {
			return nil
		}
		return named[0]
	}
	known := slices.DeleteFunc(slices.Clone(named), func(p platforms.Platform) bool {
		return !h.knows(ctx, s.peer.Instance, p, r.Action.Target())
	})
	switch len(known) {
	case 0:
		return nil
	case 1:
		return known[0]
	}
	return named[0]
}

// knows reports whether something is stored that lets the instance act on the chat with p, without
// asking the platform.
func (h *Hub) knows(ctx context.Context, i relay.InstanceID, p platforms.Platform, chat relay.ChatID) bool {
	bot := p.Bot()
	if _, ok, err := h.db.Conversation(ctx, i, relay.Chat{Bot: bot, ID: chat}); ok && err == nil {
		return true
	}
	if g, ok, err := h.db.GrantCovering(ctx, relay.Place{Platform: bot.Platform, Chat: chat}); ok && err == nil && g.Instance == i {
		return true
	}
	bindings, err := h.db.Bindings(ctx, store.BindingFilter{Instance: i})
	return err == nil && directWith(p, bindings, chat)
}
