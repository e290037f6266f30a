package discord

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/examine"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// Examine implements platforms.Examiner.
func (p *Bot) Examine(ctx context.Context, chats []relay.Place) platforms.Examination {
	return p.examined().Examine(ctx, chats)
}

// Stands implements platforms.Stander.
func (p *Bot) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	return p.examined().Stands(ctx, place)
}

func (p *Bot) examined() examine.Bot {
	return examine.Bot{Bot: p.bot, Rest: p.rest, Own: p.base != ""}
}
