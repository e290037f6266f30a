package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// profileOf is which of its gateway's profiles asks for the action; empty: it did not say.
func profileOf(a relay.Action) string {
	switch a := a.(type) {
	case relay.Send:
		return a.Meta.Profile
	case relay.Edit:
		return a.Meta.Profile
	case relay.Typing:
		return a.Meta.Profile
	case relay.React:
		return a.Meta.Profile
	case relay.Delete:
		return a.Meta.Profile
	case relay.SendMedia:
		return a.Meta.Profile
	case relay.Prompt:
		return a.Meta.Profile
	case relay.Draft:
		return a.Meta.Profile
	}
	return ""
}

// keepProfile keeps the profile that acts on the chat with the conversation, for its next events.
func (s *seat) keepProfile(ctx context.Context, c relay.Chat, a relay.Action) {
	profile := profileOf(a)
	if profile == "" {
		return
	}
	if err := s.hub.db.KeepProfile(ctx, s.peer.Instance, c, profile); err != nil {
		s.hub.log.Warn("profile not kept; the next action tries again", "instance", s.peer.Instance, "err", err)
	}
}

// profile is the one that the candidate's next event of the chat is for; empty: nobody named one.
func (h *Hub) profile(ctx context.Context, i store.Instance, c relay.Chat) (string, error) {
	if !i.Profiles {
		return "", nil
	}
	talk, _, err := h.facts.Conversation(ctx, i.ID, c)
	return talk.Profile, err
}
