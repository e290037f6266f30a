package telegram

import (
	"context"
	"strconv"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// WaitOpen implements platforms.Gatekeeper.
func (p *Platform) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.turns.WaitOpen(ctx, chat)
}

// checkChat is errUnknownChat unless chat is spelled like one of Telegram's ids.
func checkChat(chat relay.ChatID) error {
	if _, err := strconv.ParseInt(string(chat), 10, 64); err != nil {
		return errUnknownChat
	}
	return nil
}

// call carries out one method on the turn's chat, under the chat's new id if it has moved. Nothing with
// an unknown outcome is repeated: the Bot API knows no keys.
func (p *Platform) call(ctx context.Context, t *turn.Turn, method string, params tgbotapi.Params, out any) error {
	do := turn.Call{Do: func(ctx context.Context) error {
		params["chat_id"] = string(t.Chat)
		return p.client.call(ctx, method, params, out)
	}}
	err := t.Do(ctx, do)
	to := movedTo(err)
	if to == 0 || t.MovedTo != "" || params["message_id"] != "" {
		return err
	}
	delete(params, "reply_parameters") // as with message_id: the message stayed in the old chat
	if err := t.Move(ctx, chatID(to)); err != nil {
		return err
	}
	return t.Do(ctx, do)
}

// movedTo is the new id of a chat that the API refused for having moved; 0 if that is not why.
func movedTo(err error) int64 {
	to, _ := call.FaultOf(err).Detail.(int64)
	return to
}

// messageNumber is the API's number of a message; ok is false when id is no number of one. The id
// of an edit names the message that was edited.
func messageNumber(id relay.MessageID) (number string, ok bool) {
	number, _, _ = strings.Cut(string(id), editMark)
	n, err := strconv.ParseInt(number, 10, 64)
	return number, err == nil && n > 0
}
