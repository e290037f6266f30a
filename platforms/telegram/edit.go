package telegram

import (
	"context"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// writingMark ends the text of a message a gateway is still writing.
const writingMark = "▉"

// Edit implements platforms.Editor. Text over the limit edits the message to the first part and
// sends the rest as new messages; the result names the last. While the text is still being
// written (it ends in the gateway's cursor) the rest is not sent: the next edit, a second
// later, would send it again.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	t, err := p.enter(ctx, a.Chat, pace.Message, patience(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()

	if err := t.replace(ctx, l, number); err != nil {
		return relay.Result{}, explained(err)
	}
	ids := []relay.MessageID{relay.MessageID(number)}
	if strings.HasSuffix(strings.TrimSpace(a.Content), writingMark) {
		return outcome(ids, t), nil
	}
	pl := placeOf(relay.Send{Meta: a.Meta})
	pl.reply, pl.fallback = "", ""
	more, err := t.post(ctx, l, pl)
	ids = append(ids, more...)
	if err != nil {
		return relay.Result{}, l.broken(ids, err)
	}
	return outcome(ids, t), nil
}

// replace puts the letter's first part in the place of a message. The same text once more is
// success.
func (t *turn) replace(ctx context.Context, l *letter, number string) error {
	for {
		params := l.parts[0].params()
		params["message_id"] = number
		err := t.call(ctx, "editMessageText", params, nil)
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
