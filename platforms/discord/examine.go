package discord

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/examine"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Examine implements platforms.Examiner.
func (p *Bot) Examine(ctx context.Context, chats []relay.Place) platforms.Examination {
	return examine.Bot{Bot: p.bot, Rest: p.rest, Own: p.base != ""}.Examine(ctx, chats)
}
