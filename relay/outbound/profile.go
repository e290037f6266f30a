package outbound

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
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
func (who *Caller) keepProfile(ctx context.Context, c relay.Chat, a relay.Action) {
	profile := profileOf(a)
	if profile == "" {
		return
	}
	if err := who.out.db.KeepProfile(ctx, who.instance, c, profile); err != nil {
		who.out.log.Warn("profile not kept; the next action tries again", "instance", who.instance, "err", err)
	}
}
