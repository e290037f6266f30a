package inbound

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
)

// ClaimWithin bounds everything the platforms are asked about one claim. No answer is no.
const ClaimWithin = 5 * time.Second

// MayClaim reports whether the instance may be granted a chat because its gateway asks for it, and which place to
// grant. One of its bound owners, who is not linked for commands only, must manage the chat and see it, as the platform
// says now. An empty chat stands for the whole scope; an empty scope means that the caller does not know the scope.
// Nobody may claim a direct message. It blocks for at most ClaimWithin.
func (in *Inbound) MayClaim(ctx context.Context, i relay.InstanceID, p relay.PlatformID, scope relay.ScopeID, chat relay.ChatID) (relay.Place, bool) {
	ctx, cancel := context.WithTimeout(platforms.For(ctx, i), ClaimWithin)
	defer cancel()
	owners, err := in.facts.Bindings(ctx, store.BindingFilter{Instance: i, Platform: p})
	owners = slices.DeleteFunc(owners, func(b store.Binding) bool { return len(b.Commands) > 0 })
	if err != nil || len(owners) == 0 {
		return relay.Place{}, false
	}
	for _, bot := range in.bots.Bots() {
		if bot.ID().Platform != p {
			continue
		}
		place, ok := claimable(ctx, bot, scope, chat)
		if ok && slices.ContainsFunc(owners, func(b store.Binding) bool { return in.governs(ctx, bot, place, b.User) }) {
			return place, true
		}
	}
	return relay.Place{}, false
}

// claimable returns the place that the bot knows under the asserted scope and chat; false if there is none that can be
// claimed.
func claimable(ctx context.Context, p platforms.Bot, scope relay.ScopeID, chat relay.ChatID) (relay.Place, bool) {
	if chat == "" {
		return relay.Place{Platform: p.ID().Platform, Scope: scope}, scope != ""
	}
	place, known := facts.Locate(ctx, p, relay.Place{Platform: p.ID().Platform, Chat: chat})
	if !known || place.Chat != chat || scope != "" && scope != place.Scope {
		return relay.Place{}, false
	}
	if d, ok := p.(platforms.DirectChats); ok {
		if _, direct := d.DirectUser(chat); direct {
			return relay.Place{}, false
		}
	}
	return place, true
}

// governs reports whether the user manages the place and, if it is one chat, sees it.
func (in *Inbound) governs(ctx context.Context, p platforms.Bot, place relay.Place, user relay.UserID) bool {
	m, ok := p.(platforms.Manager)
	if !ok {
		return false
	}
	manages, err := m.CanManage(ctx, place, user)
	if err != nil || !manages || place.Chat == "" {
		return err == nil && manages
	}
	sees, err := in.facts.Visible.Ask(ctx, p, visibility.Of{Bot: p.ID(), Place: place, User: user}, time.Now().Add(ClaimWithin))
	return err == nil && sees
}
