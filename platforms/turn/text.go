package turn

import (
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// writingMark ends the text of a message a gateway is still writing.
const writingMark = "▉"

// IsUnfinished reports whether a gateway is still writing the text. What does not fit into the message
// is not sent then: the next edit, a second later, would send it again.
func IsUnfinished(text string) bool { return strings.HasSuffix(strings.TrimSpace(text), writingMark) }

// Sent is the result of a text whose parts have the given ids.
func (t *Turn) Sent(ids []relay.MessageID) relay.Result {
	res := relay.Result{MovedTo: t.MovedTo}
	if len(ids) > 0 {
		res.MessageID = ids[len(ids)-1]
	}
	if len(ids) > 1 {
		res.MessageIDs = ids
	}
	return res
}

// Broken is err, which ended a text, as a gateway may read it: the parts with these ids stand, and left
// are missing. A text of which a part stands must not be sent again: the words say "timed out", whatever
// the reason.
func (s *Turns) Broken(ids []relay.MessageID, left int, err error) error {
	why := s.explain(err)
	if len(ids) == 0 {
		return why
	}
	return &relay.ActionError{
		Outcome: relay.MaybeSent, MessageIDs: ids, RetryAfter: why.RetryAfter, Err: err,
		Public: fmt.Sprintf("timed out: only the first %d of %d parts are delivered for certain", len(ids), len(ids)+left),
	}
}
