package telegram

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// codeTooMany is the API's error code for "leave me alone for a while".
const codeTooMany = 429

// Telegram's phrases for what is refused before it is asked, so that a gateway reads the same
// words for the same fault.
var (
	errEmpty          = &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: message text is empty"}
	errTooLong        = &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: message is too long"}
	errUnknownChat    = &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: chat not found"}
	errUnknownMessage = &relay.ActionError{Outcome: relay.NotSent, Public: "Bad Request: MESSAGE_ID_INVALID"}
)

// explained is err as a gateway may read it, always an *relay.ActionError. Its words steer the
// gateway: "network" has it try again, "timed out" has it leave the message alone, anything
// else is final, and then Telegram's own phrase says it best.
func explained(err error) error {
	var done *relay.ActionError
	if errors.As(err, &done) {
		return done
	}
	var ae *apiError
	if !errors.As(err, &ae) {
		return &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out: the outcome is unknown", Err: err}
	}
	out := &relay.ActionError{Outcome: relay.NotSent, RetryAfter: ae.RetryAfter, Err: err}
	switch {
	case ae.Sent == sentRefused && ae.Code == codeTooMany:
		out.Public = "network: " + ae.Description
	case ae.Sent == sentRefused:
		out.Public = ae.Description
		if out.Public == "" {
			out.Public = "Bad Request"
		}
	case ae.Sent == sentNever && ae.cause != nil:
		out.Public = "network: not sent before the deadline"
	case ae.Sent == sentNever:
		out.Public = "network: Telegram cannot be reached"
	case ae.Code >= 500:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: Telegram had an internal error, the outcome is unknown"
	default:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: Telegram's answer did not come, the outcome is unknown"
	}
	return out
}

// refusedWith reports whether the API refused the call, with an error 400 that contains one of
// phrases (lower case).
func refusedWith(err error, phrases ...string) bool {
	var ae *apiError
	if !errors.As(err, &ae) || ae.Sent != sentRefused || ae.Code != 400 {
		return false
	}
	said := strings.ToLower(ae.Description)
	for _, p := range phrases {
		if strings.Contains(said, p) {
			return true
		}
	}
	return false
}

// refusedForGood reports whether the API refused a question for what was asked: the same question
// gets the same answer. A wrong token (401, 404) and silence (429) say nothing about it.
func refusedForGood(err error) bool {
	var ae *apiError
	return errors.As(err, &ae) && ae.Sent == sentRefused && (ae.Code == http.StatusBadRequest || ae.Code == http.StatusForbidden)
}

// refusedFormat: the API did not take the entities, or an address in them.
func refusedFormat(err error) bool { return refusedWith(err, "entit", "url", "can't parse") }

// refusedThread: the topic is gone, or cannot be addressed: some versions of the API server know
// none in private chats.
func refusedThread(err error) bool { return refusedWith(err, "message thread not found") }

// refusedReply: the message replied to is gone, and the server would not send without it.
func refusedReply(err error) bool {
	return refusedWith(err, "message to be replied not found", "replied message not found", "message to reply not found")
}

// refusedEmpty: the text is nothing anybody could see.
func refusedEmpty(err error) bool {
	return refusedWith(err, "message text is empty", "text must be non-empty", "message must be non-empty")
}

// notSentIn is the answer to a call that was not made because ctx had ended.
func notSentIn(ctx context.Context) error {
	return &relay.ActionError{
		Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: context.Cause(ctx),
	}
}
