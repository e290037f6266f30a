package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reactWait is how long a reaction waits for its turn. It is cosmetic.
const reactWait = 2 * time.Second

// React implements platforms.Reacter. A bot has one reaction per message: setting one replaces
// the other, and removing any removes it.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	if ctx.Err() != nil {
		return relay.Result{}, notSentIn(ctx)
	}
	wait := reactWait
	if p.gate.Closed(a.Chat) { // in a penalty it is dropped
		wait = 0
	}
	t, err := p.enter(ctx, a.Chat, pace.Signal, wait)
	if errors.Is(err, errUnknownChat) {
		return relay.Result{}, err
	}
	if err != nil {
		return relay.Result{}, rateLimited(0, err)
	}
	defer t.leave()
	t.once = true

	reaction := "[]"
	if !a.Remove {
		list, err := json.Marshal([]map[string]string{{"type": "emoji", "emoji": allowed(a.Emoji)}})
		if err != nil {
			return relay.Result{}, explained(err)
		}
		reaction = string(list)
	}
	err = t.call(ctx, "setMessageReaction", tgbotapi.Params{"message_id": number, "reaction": reaction}, nil)
	var ae *apiError
	if limited(err) && errors.As(err, &ae) {
		return relay.Result{}, rateLimited(ae.RetryAfter, err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: relay.MessageID(number), MovedTo: t.movedTo()}, nil
}

func rateLimited(d time.Duration, err error) error {
	var ae *relay.ActionError
	if errors.As(err, &ae) {
		d = ae.RetryAfter
	}
	return &relay.ActionError{Outcome: relay.NotSent, Public: "rate limited", RetryAfter: d, Err: err}
}
