package render

import (
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// MaxJoined is how many bytes of text are joined into one event.
const MaxJoined = 100 << 10

// Join joins two messages of one person in one conversation, the first of which may be joined already: the result is
// one event under the second's id, with the texts in order and all files. ok is false for two that must stay separate:
// one is a command, a press or a forwarded message, they answer different messages, they come from two people or two
// places, or they are too much together. A voice message is joined with voice and text only, because older gateways
// would not hear it otherwise.
func Join(first, second relay.Event) (joined relay.Event, ok bool) {
	joined = second
	joined.Text = together("\n", first.Text, second.Text)
	joined.Type = joinedType(first.Type, second.Type)
	joined.Attachments = slices.Clone(first.Attachments)
	for _, a := range second.Attachments { // both may name a file of the message that they answer
		if !slices.ContainsFunc(joined.Attachments, func(b relay.Attachment) bool { return a.Ref == b.Ref }) {
			joined.Attachments = append(joined.Attachments, a)
		}
	}
	joined.Media = slices.Concat(first.Media, second.Media)
	joined.Traits.Addressed = first.Traits.Addressed || second.Traits.Addressed
	where := first.Source
	where.MessageID = second.Source.MessageID
	switch { // each case except the last is a reason not to join
	case alone(first), alone(second), first.Bot != second.Bot, where != second.Source, where.ChatID == "":
	case second.Source.UserID == "" && second.Source.ChatType != relay.ChatDM: // the author is unknown
	case first.ReplyToMessageID != second.ReplyToMessageID, (first.ReplyTo == nil) != (second.ReplyTo == nil):
	case first.ReplyTo != nil && *first.ReplyTo != *second.ReplyTo:
	case joined.Type == "", len(joined.Text) > MaxJoined, len(joined.Attachments)+len(joined.Media) > relay.MaxAttachments:
	default:
		return joined, true
	}
	return relay.Event{}, false
}

// alone reports whether ev is never joined: a gateway does something else with it than to give it to its agent, or its
// words may be another person's.
func alone(ev relay.Event) bool {
	return ev.Type == relay.TypeCommand || ev.Prompt != nil || ev.Traits.Press || ev.Traits.Forwarded || strings.HasPrefix(strings.TrimSpace(ev.Text), "/")
}

// joinedType returns the type of two joined messages; empty: such types are not joined.
func joinedType(first, second relay.MessageType) relay.MessageType {
	switch {
	case first == second, second == relay.TypeText:
		return first
	case first == relay.TypeText:
		return second
	case first == relay.TypeVoice, second == relay.TypeVoice:
		return ""
	}
	return relay.TypeDocument
}
