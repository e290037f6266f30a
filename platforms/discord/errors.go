package discord

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Discord's error texts, as its libraries print them, for requests that we refuse before Discord does: a gateway reads
// the same text for the same fault.
var (
	errEmpty          = refusal(http.StatusBadRequest, discordgo.ErrCodeCannotSendEmptyMessage, "Cannot send an empty message")
	errTooLong        = refusal(http.StatusBadRequest, discordgo.ErrCodeInvalidFormBody, "Invalid Form Body: the text is too long")
	errUnknownChat    = refusal(http.StatusNotFound, discordgo.ErrCodeUnknownChannel, "Unknown Channel")
	errUnknownMessage = refusal(http.StatusNotFound, discordgo.ErrCodeUnknownMessage, "Unknown Message")
	errUnknownEmoji   = refusal(http.StatusBadRequest, discordgo.ErrCodeUnknownEmoji, "Unknown Emoji")
	errInvalidForm    = refusal(http.StatusBadRequest, discordgo.ErrCodeInvalidFormBody, "Invalid Form Body")
)

// refusal makes the error of Discord's answer, worded as its libraries print it. It leaves out words that a gateway
// would follow as if they were the connector's (relay.Steers).
func refusal(status, code int, words string) *relay.ActionError {
	out := fmt.Sprintf("%d %s", status, http.StatusText(status)) // gateways read the status here
	if code != 0 {
		out += fmt.Sprintf(" (error code: %d)", code)
	}
	if words != "" && !relay.Steers(words) {
		out += ": " + words
	}
	if code == discordgo.ErrCodeUnknownChannel {
		return relay.Gone(out, nil)
	}
	return relay.Refused(out, nil)
}

// explained turns err into an error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "Discord", func(f *httpcall.Fault) *relay.ActionError {
		return refusal(f.Status, f.Code, f.Message)
	})
}

// refusedWith reports whether Discord refused the request with one of codes.
func refusedWith(err error, codes ...int) bool {
	f := httpcall.FaultOf(err)
	return f.Sent == httpcall.Refused && slices.Contains(codes, f.Code)
}

// answered reports whether Discord refused the request with one of the HTTP statuses.
func answered(err error, statuses ...int) bool {
	return slices.ContainsFunc(statuses, httpcall.FaultOf(err).Refused)
}
