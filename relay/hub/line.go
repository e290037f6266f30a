package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// line is the chat r waits for: the bot's and the thread's that it is about, however the frame spells
// them; see session.Action. It is decided from what is stored, as route does where the platform need
// not be asked. Where it must be, the line is that of the frames with the same spelling.
func (s *seat) line(ctx context.Context, r relay.Request) relay.Chat {
	h, i, thread := s.hub, s.peer.Instance, r.Action.Within()
	line := relay.Chat{Bot: relay.Bot{Platform: r.Platform, ID: r.Bot}, ID: r.Action.Target()}
	var p platforms.Platform
	if a, ok := r.Action.(relay.FollowUp); ok {
		held, _ := h.keeper.Bound(s.peer.Tenant, i, a.Session, a.Kind)
		line, p, thread = relay.Chat{Bot: held.Bot, ID: held.Chat}, h.platform(held.Bot), a.Meta.ThreadID
	} else if bot, sure, err := s.route(r, func(p platforms.Platform) (bool, error) {
		return h.knows(ctx, i, p, line.ID), nil
	}); sure && err == nil {
		p, line.Bot = bot, bot.Bot()
	}
	if _, ok := p.(platforms.Threader); ok && thread != "" {
		line.ID = relay.ChatID(thread)
	}
	if p != nil {
		if now, err := h.facts.CurrentChat(ctx, p.Bot().Platform, line.ID); err == nil {
			line.ID = now
		}
	}
	return line
}
