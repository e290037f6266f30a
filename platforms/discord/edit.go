package discord

import (
	"context"
	"net/http"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// writingMark ends the text of a message a gateway is still writing.
const writingMark = "▉"

// Edit implements platforms.Editor. Text over the limit edits the message to the first part and
// sends the rest as new messages; the result names the last. While the text is still being written
// (it ends in the gateway's cursor) the rest is not sent: the next edit, a second later, would send
// it again.
func (p *Platform) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	if !isID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	t, err := p.enter(ctx, a.Chat, pace.Message, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()

	err = t.call(ctx, request{
		method: http.MethodPatch, path: messagePath(a.Chat, a.Message), again: true,
		body: message{Content: l.parts[0], Mentions: p.mentions()},
	}, nil)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	ids := []relay.MessageID{a.Message}
	if l.parts = l.parts[1:]; strings.HasSuffix(strings.TrimSpace(a.Content), writingMark) {
		return outcome(ids), nil
	}
	more, err := t.post(ctx, l, "")
	ids = append(ids, more...)
	if err != nil {
		return relay.Result{}, l.broken(ids, err)
	}
	return outcome(ids), nil
}
