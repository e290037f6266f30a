package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// A chat may get another id in the middle of a turn, as a Telegram group does that becomes a
// supergroup. What a gateway then asks for about the old id is meant for the new one, is judged by
// that alone, and its result says which it is.

// chatNow is the id that the chat has on p now.
func (h *Hub) chatNow(ctx context.Context, p platforms.Platform, chat relay.ChatID) (relay.ChatID, error) {
	return h.db.CurrentChat(ctx, p.Bot().Platform, chat)
}

// errLeftBehind is the answer to a reaction to a message that stayed in the chat of the old id.
var errLeftBehind = &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: message to react not found"}

// retarget is a, aimed at the id its chat has now. An action that names no chat stays as it is.
//
// What was said before stayed behind with the old id, and its numbers mean other messages in the new
// chat. A gateway that uses the old id can answer and react only to such ones: replies go without
// their quote, and reactions nowhere.
func (h *Hub) retarget(ctx context.Context, p platforms.Platform, a relay.Action) (relay.Action, error) {
	to, err := h.chatNow(ctx, p, a.Target())
	if err != nil || to == a.Target() {
		return a, err
	}
	switch a := relay.Aimed(a, to).(type) {
	case relay.Send:
		a.ReplyTo, a.Meta = "", unquoted(a.Meta)
		return a, nil
	case relay.SendMedia:
		a.ReplyTo, a.Meta = "", unquoted(a.Meta)
		return a, nil
	case relay.Prompt:
		a.ReplyTo, a.Meta = "", unquoted(a.Meta)
		return a, nil
	case relay.React:
		return a, errLeftBehind
	default:
		return a, nil
	}
}

// unquoted is m without the messages it hints at.
func unquoted(m relay.Metadata) relay.Metadata {
	m.ReplyToMessageID, m.TelegramReplyTo, m.MessageID = "", "", ""
	return m
}

// named adds to the result of an action in chat which id that is, if the gateway asked for another.
func named(res relay.Result, asked, chat relay.ChatID) relay.Result {
	if res.MovedTo == "" && chat != asked {
		res.MovedTo = chat
	}
	return res
}
