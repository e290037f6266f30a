package telegram

import (
	"context"
	"encoding/json"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// React implements platforms.Reacter. A bot has one reaction per message: setting one replaces
// the other, and removing any removes it.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()

	reaction := "[]"
	if !a.Remove {
		list, err := json.Marshal([]map[string]string{{"type": "emoji", "emoji": allowed(a.Emoji)}})
		if err != nil {
			return relay.Result{}, explained(err)
		}
		reaction = string(list)
	}
	err = p.call(ctx, t, "setMessageReaction", tgbotapi.Params{"message_id": number, "reaction": reaction}, nil)
	if call.FaultOf(err).Limited() {
		return relay.Result{}, turn.Dropped(err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: relay.MessageID(number), MovedTo: t.MovedTo}, nil
}
