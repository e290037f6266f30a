package telegram

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
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
	t, err := p.turns.Enter(ctx, a.Chat, pace.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()

	if err := p.replace(ctx, t, l, number); err != nil {
		return relay.Result{}, explained(err)
	}
	ids := []relay.MessageID{relay.MessageID(number)}
	if turn.IsUnfinished(a.Content) {
		return t.Sent(ids), nil
	}
	pl := placeOf(relay.Send{Meta: a.Meta})
	pl.reply, pl.fallback = "", ""
	more, err := p.post(ctx, t, l, pl)
	ids = append(ids, more...)
	if err != nil {
		return relay.Result{}, t.Broken(ids, len(l.parts), err)
	}
	return t.Sent(ids), nil
}

// replace puts the letter's first part in the place of a message. The same text once more is
// success.
func (p *Platform) replace(ctx context.Context, t *turn.Turn, l *letter, number string) error {
	for {
		params := l.parts[0].params()
		params["message_id"] = number
		err := p.call(ctx, t, "editMessageText", params, nil)
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
