package discord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Discord's error codes that are acted on (https://discord.com/developers/docs/topics/opcodes-and-status-codes).
const (
	codeUnknownChannel = 10003
	codeUnknownGuild   = 10004
	codeUnknownMessage = 10008
	codeUnknownEmoji   = 10014
	codeUnknownWebhook = 10015
	codeAcknowledged   = 40060
	codeEmptyMessage   = 50006
	codeInvalidToken   = 50027
	codeInvalidForm    = 50035
	codeNoHistory      = 160002 // cannot reply without permission to read the message history
)

// Discord's phrases, in the form its libraries give them, for what is refused before it is asked,
// so that a gateway reads the same words for the same fault.
var (
	errEmpty          = refusal(http.StatusBadRequest, codeEmptyMessage, "Cannot send an empty message")
	errTooLong        = refusal(http.StatusBadRequest, codeInvalidForm, "Invalid Form Body: the text is too long")
	errUnknownChat    = refusal(http.StatusNotFound, codeUnknownChannel, "Unknown Channel")
	errUnknownMessage = refusal(http.StatusNotFound, codeUnknownMessage, "Unknown Message")
	errUnknownEmoji   = refusal(http.StatusBadRequest, codeUnknownEmoji, "Unknown Emoji")
	errInvalidForm    = refusal(http.StatusBadRequest, codeInvalidForm, "Invalid Form Body")
)

func refusal(status, code int, words string) *relay.ActionError {
	return &relay.ActionError{Outcome: relay.NotSent, Public: phrase(status, code, words)}
}

// phrase is what Discord answered, as its libraries print it: gateways read the status's name.
func phrase(status, code int, words string) string {
	for _, word := range []string{"network", "timed out"} { // would have a gateway try again, or give up
		if strings.Contains(strings.ToLower(words), word) {
			words = ""
		}
	}
	out := fmt.Sprintf("%d %s", status, http.StatusText(status))
	if code != 0 {
		out += fmt.Sprintf(" (error code: %d)", code)
	}
	if words != "" {
		out += ": " + words
	}
	return out
}

// explained is err as a gateway may read it, always an *relay.ActionError. Its words steer the
// gateway: "network" has it try again, "timed out" has it leave the message alone, anything else is
// final, and then Discord's own phrase says it best.
func explained(err error) error {
	var done *relay.ActionError
	if errors.As(err, &done) {
		return done
	}
	var ae *apiError
	if !errors.As(err, &ae) {
		return &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out: the outcome is unknown", Err: err}
	}
	if errors.Is(ae.cause, errOverspent) { // the gateway's own doing: it is not asked to try again
		return rateLimited(ae.RetryAfter, err)
	}
	out := &relay.ActionError{Outcome: relay.NotSent, RetryAfter: ae.RetryAfter, Err: err}
	switch {
	case ae.Sent == sentRefused && ae.Status == http.StatusTooManyRequests:
		out.Public = "network: " + limitedWords(ae.RetryAfter)
	case ae.Sent == sentRefused:
		out.Public = phrase(ae.Status, ae.Code, ae.Message)
	case ae.Sent == sentNever && ae.RetryAfter > 0:
		out.Public = "network: " + limitedWords(ae.RetryAfter)
	case ae.Sent == sentNever && ae.cause != nil:
		out.Public = "network: not sent before the deadline"
	case ae.Sent == sentNever:
		out.Public = "network: Discord cannot be reached"
	case ae.Status >= 500:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: Discord had an internal error, the outcome is unknown"
	default:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: Discord's answer did not come, the outcome is unknown"
	}
	return out
}

func limitedWords(d time.Duration) string {
	return fmt.Sprintf("rate limited, retry after %d", int64(math.Ceil(d.Seconds())))
}

// refusedWith reports whether Discord refused the request with one of codes.
func refusedWith(err error, codes ...int) bool {
	var ae *apiError
	return errors.As(err, &ae) && ae.Sent == sentRefused && slices.Contains(codes, ae.Code)
}

// answered reports whether Discord refused the request with the HTTP status.
func answered(err error, status int) bool {
	var ae *apiError
	return errors.As(err, &ae) && ae.Sent == sentRefused && ae.Status == status
}

// rateLimited is the answer to a reaction that is dropped.
func rateLimited(d time.Duration, err error) error {
	var done *relay.ActionError
	if errors.As(err, &done) {
		d = done.RetryAfter
	}
	return &relay.ActionError{Outcome: relay.NotSent, Public: "rate limited", RetryAfter: d, Err: err}
}

// notSentIn is the answer to a request that was not made because ctx had ended.
func notSentIn(ctx context.Context) error {
	return &relay.ActionError{
		Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: context.Cause(ctx),
	}
}
