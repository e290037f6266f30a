package slack

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// Run implements platforms.Bot.
func (p *Bot) Run(ctx context.Context, _ platforms.Inbox) error {
	<-ctx.Done()
	p.status.Set(platforms.Stopped, "")
	return nil
}
