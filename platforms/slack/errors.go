package slack

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Errors of requests that are refused without asking Slack, in Slack's own words.
var (
	errEmpty          = relay.Refused("no_text", nil)
	errTooLong        = relay.Refused("msg_too_long", nil)
	errUnknownChat    = relay.Gone("channel_not_found", nil)
	errUnknownMessage = relay.Refused("message_not_found", nil)
	errUnknownEmoji   = relay.Refused("invalid_name", nil)
	errNoFile         = relay.Refused("no_file_data", nil)
)

var (
	// goneWords are Slack's words for a channel in which no message will ever arrive.
	goneWords = []string{"channel_not_found", "is_archived", "messages_tab_disabled", "account_inactive", "cannot_dm_bot", "user_disabled"}
	// forbidden are Slack's words for an action that the bot is not allowed at present. Gateways recognise the English
	// word "forbidden".
	forbidden = []string{"not_in_channel", "ekm_access_denied", "no_permission", "access_denied", "posting_to_channel_denied"}
)

// explained turns err into the error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "Slack", func(f *httpcall.Fault) *relay.ActionError {
		word, _, _ := strings.Cut(f.Message, ":")
		switch {
		case slices.Contains(goneWords, word):
			return relay.Gone(f.Message, nil)
		case slices.Contains(forbidden, word) || strings.HasPrefix(word, "restricted_action"):
			return relay.Refused("forbidden: "+f.Message, nil)
		case word == "file_upload_size_restricted":
			return relay.Refused("Request entity too large", nil)
		}
		return relay.Refused(cmp.Or(f.Message, "refused"), nil)
	})
}
