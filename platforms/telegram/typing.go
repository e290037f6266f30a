package telegram

import (
	"context"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingLasts is how long we let one "typing…" stand before the next. Telegram shows it for
// five seconds; a gateway asks every two.
const typingLasts = 4 * time.Second

// Typing implements platforms.Typer. It leaves at once or not at all, at most one per topic in
// typingLasts. The General topic is named here, unlike on sends.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	thread := threadOf(a.Meta)
	if !p.turns.Limiter.Due(a.Chat, "typing in "+thread, typingLasts) {
		return relay.Result{}, nil
	}
	params := tgbotapi.Params{"action": tgbotapi.ChatTyping}
	params.AddNonEmpty("message_thread_id", thread)
	err = p.call(ctx, t, "sendChatAction", params, nil)
	if call.FaultOf(err).Limited() {
		return relay.Result{}, nil
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MovedTo: t.MovedTo}, nil
}
