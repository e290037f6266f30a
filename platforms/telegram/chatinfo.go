package telegram

import (
	"context"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// ChatInfo implements platforms.ChatInformer. Types are those of events: a forum is a group.
func (p *Platform) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	t, err := p.turns.Enter(ctx, a.Chat, pace.Look)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	var c chat
	if err := p.call(ctx, t, "getChat", tgbotapi.Params{}, &c); err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{
		ChatInfo: &relay.ChatInfo{Name: c.name(), Type: c.kind()},
		MovedTo:  t.MovedTo,
	}, nil
}
