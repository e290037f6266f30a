package telegram

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Edit implements platforms.Editor. Text over the limit edits the message to the first part and
// sends the rest as new messages, unless the text is unfinished; the result names the last.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(relay.Send{Meta: a.Meta})
	l.place.reply, l.place.fallback = "", ""
	a.Message = relay.MessageID(number)
	return p.turns.Edit(ctx, a, l, func(ctx context.Context, t *turn.Turn) error { return l.replace(ctx, t, number) })
}

// replace puts the letter's first part in the place of a message. The same text once more is
// success.
func (l *letter) replace(ctx context.Context, t *turn.Turn, number string) error {
	for {
		params := l.parts[0].params()
		params["message_id"] = number
		err := l.p.call(ctx, t, "editMessageText", params, nil)
		switch {
		case err == nil || refusedWith(err, "message is not modified"):
			l.next()
			return nil
		case refusedFormat(err) && l.unformat():
		default:
			return err
		}
	}
}
