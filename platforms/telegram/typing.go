package telegram

import (
	"context"
	"errors"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingLasts is how long we let one "typing…" stand before the next. Telegram shows it for
// five seconds; a gateway asks every two.
const typingLasts = 4 * time.Second

// Typing implements platforms.Typer. It leaves at once or not at all, at most one per topic in
// typingLasts. The General topic is named here, unlike on sends.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	if err := ctx.Err(); err != nil {
		return relay.Result{}, notSentIn(ctx)
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, 0)
	if errors.Is(err, errUnknownChat) {
		return relay.Result{}, err
	}
	if err != nil {
		return relay.Result{}, nil // dropped
	}
	defer t.leave()
	t.once = true
	thread := threadOf(a.Meta)
	if !p.gate.Due(a.Chat, "typing in "+thread, typingLasts) {
		return relay.Result{}, nil
	}
	params := tgbotapi.Params{"action": "typing"}
	params.AddNonEmpty("message_thread_id", thread)
	err = t.call(ctx, "sendChatAction", params, nil)
	if limited(err) {
		return relay.Result{}, nil
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MovedTo: t.movedTo()}, nil
}

// limited reports whether the API asked to be left alone.
func limited(err error) bool {
	var ae *apiError
	return errors.As(err, &ae) && ae.Sent == sentRefused && ae.Code == codeTooMany
}
