package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A chat may get another id in the middle of a turn, as a Telegram group does that becomes a
// supergroup. What a gateway then asks for about the old id is meant for the new one, is judged by
// that alone, and its result says which it is.

// errLeftBehind is the answer to an action on a message that stayed in the chat of the former id, in
// Telegram's words.
func errLeftBehind(op relay.Op) *relay.ActionError {
	return &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: message to " + string(op) + " not found"}
}

// leftBehind is why an instance may not do a, which names a former id of the chat: where it had sent
// the message itself, that it stayed behind; else declined.
func (h *Hub) leftBehind(ctx context.Context, i relay.InstanceID, t target, a relay.Action, declined *relay.ActionError) error {
	var m relay.MessageID
	switch a := a.(type) {
	case relay.Edit:
		m = a.Message
	case relay.Delete:
		m = a.Message
	default:
		return declined
	}
	sender, known, err := h.db.Sent.By(ctx, relay.Chat{Bot: t.bot.Bot(), ID: a.Target()}, m)
	switch {
	case err != nil:
		return internal(err)
	case known && sender == i:
		return errLeftBehind(a.Op())
	}
	return declined
}

// unquoted is a, an action about a former id that is aimed at the chat's id of now, without the messages
// it names: what was said before stayed behind, and its numbers mean other messages in the new chat. So
// replies go without their quote, and reactions nowhere.
func unquoted(a relay.Action) (relay.Action, error) {
	switch a := a.(type) {
	case relay.Send:
		a.ReplyTo, a.Meta = "", withoutMessages(a.Meta)
		return a, nil
	case relay.SendMedia:
		a.ReplyTo, a.Meta = "", withoutMessages(a.Meta)
		return a, nil
	case relay.Prompt:
		a.ReplyTo, a.Meta = "", withoutMessages(a.Meta)
		return a, nil
	case relay.React:
		return a, errLeftBehind(a.Op())
	default:
		return a, nil
	}
}

// withoutMessages is m without the messages it hints at.
func withoutMessages(m relay.Metadata) relay.Metadata {
	m.ReplyToMessageID, m.TelegramReplyTo = "", ""
	return m
}
