package discord

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Discord's words, as its libraries print them, for what is refused before Discord is asked: a gateway reads the
// same words for the same fault.
var (
	errEmpty          = refusal(http.StatusBadRequest, discordgo.ErrCodeCannotSendEmptyMessage, "Cannot send an empty message")
	errTooLong        = refusal(http.StatusBadRequest, discordgo.ErrCodeInvalidFormBody, "Invalid Form Body: the text is too long")
	errUnknownChat    = refusal(http.StatusNotFound, discordgo.ErrCodeUnknownChannel, "Unknown Channel")
	errUnknownMessage = refusal(http.StatusNotFound, discordgo.ErrCodeUnknownMessage, "Unknown Message")
	errUnknownEmoji   = refusal(http.StatusBadRequest, discordgo.ErrCodeUnknownEmoji, "Unknown Emoji")
	errInvalidForm    = refusal(http.StatusBadRequest, discordgo.ErrCodeInvalidFormBody, "Invalid Form Body")
)

func refusal(status, code int, words string) *relay.ActionError {
	return &relay.ActionError{Outcome: relay.NotSent, Public: phrase(status, code, words)}
}

// phrase is what Discord answered, as its libraries print it: gateways read the status's name.
func phrase(status, code int, words string) string {
	for _, word := range []string{"network", "timed out"} { // to a gateway they mean something else
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

// explained is err as a gateway may read it. After too many refused requests of its own it must not try again.
func explained(err error) *relay.ActionError {
	if errors.Is(err, rest.ErrOverspent) {
		return sender.Dropped(err)
	}
	return httpcall.Explain(err, "Discord", func(f *httpcall.Fault) string {
		if f.Limited() {
			return fmt.Sprintf("rate limited, retry after %d", int64(math.Ceil(f.RetryAfter.Seconds())))
		}
		return phrase(f.Status, f.Code, f.Message)
	})
}

// refusedWith reports whether Discord refused the request with one of codes.
func refusedWith(err error, codes ...int) bool {
	f := httpcall.FaultOf(err)
	return f.Sent == httpcall.Refused && slices.Contains(codes, f.Code)
}

// answered reports whether Discord refused the request with the HTTP status.
func answered(err error, status int) bool { return httpcall.FaultOf(err).Refused(status) }
