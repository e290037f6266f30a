package telegram

import (
	"context"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Platform) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, a.Chat, pace.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	err = p.call(ctx, t, "deleteMessage", tgbotapi.Params{"message_id": number}, nil)
	if err != nil && !refusedWith(err, "message to delete not found") {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: relay.MessageID(number), MovedTo: t.MovedTo}, nil
}
