package turn

import (
	"context"
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// writingMark ends the text of a message a gateway is still writing.
const writingMark = "▉"

// Text is a text on its way, in parts.
type Text interface {
	// Left is how many parts are not sent yet.
	Left() int
	// Send posts the next part in the turn's chat, and goes on to the one after it.
	Send(ctx context.Context, t *Turn) (relay.MessageID, error)
	// Skip goes on to the one after it, too, if it was refused with err because nobody could see it.
	Skip(err error) bool
}

// Post posts a text in a chat, in order.
func (s *Turns) Post(ctx context.Context, chat relay.ChatID, x Text) (relay.Result, error) {
	t, err := s.Enter(ctx, chat, pace.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	return t.Post(ctx, x)
}

// Edit has replace put the first part of x in the place of the message, and posts the rest. While the
// gateway is still writing the text, the rest is not sent: the next edit, a second later, would send it
// again.
func (s *Turns) Edit(ctx context.Context, a relay.Edit, x Text, replace func(context.Context, *Turn) error) (relay.Result, error) {
	t, err := s.Enter(ctx, a.Chat, pace.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if err := replace(ctx, t); err != nil {
		return relay.Result{}, s.explain(err)
	}
	if strings.HasSuffix(strings.TrimSpace(a.Content), writingMark) {
		return t.sent([]relay.MessageID{a.Message}), nil
	}
	return t.Post(ctx, x, a.Message)
}

// Post posts the text behind the parts that stand already.
func (t *Turn) Post(ctx context.Context, x Text, stand ...relay.MessageID) (relay.Result, error) {
	for x.Left() > 0 {
		id, err := x.Send(ctx, t)
		switch {
		case err == nil && id != "":
			stand = append(stand, id)
		case err != nil && (len(stand) == 0 || !x.Skip(err)):
			return relay.Result{}, t.broken(stand, x.Left(), err)
		}
	}
	return t.sent(stand), nil
}

// sent is the result of a text whose parts have the given ids.
func (t *Turn) sent(ids []relay.MessageID) relay.Result {
	res := relay.Result{MovedTo: t.MovedTo}
	if len(ids) > 0 {
		res.MessageID = ids[len(ids)-1]
	}
	if len(ids) > 1 {
		res.MessageIDs = ids
	}
	return res
}

// broken is err, which ended a text, as a gateway may read it: the parts with these ids stand, and left
// are missing. A text of which a part stands must not be sent again: the words say "timed out", whatever
// the reason.
func (s *Turns) broken(ids []relay.MessageID, left int, err error) error {
	why := s.explain(err)
	if len(ids) == 0 {
		return why
	}
	return &relay.ActionError{
		Outcome: relay.MaybeSent, MessageIDs: ids, RetryAfter: why.RetryAfter, Err: err,
		Public: fmt.Sprintf("timed out: only the first %d of %d parts are delivered for certain", len(ids), len(ids)+left),
	}
}
