package telegram

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Errors of requests that are refused without asking Telegram, in Telegram's own phrases.
var (
	errEmpty          = relay.Refused("Bad Request: message text is empty", nil)
	errTooLong        = relay.Refused("Bad Request: message is too long", nil)
	errUnknownChat    = relay.Refused("Bad Request: chat not found", nil)
	errUnknownMessage = relay.Refused("Bad Request: MESSAGE_ID_INVALID", nil)
)

// explained turns err into an error that a gateway may read.
func explained(err error) *relay.ActionError {
	return httpcall.Explain(err, "Telegram", func(f *httpcall.Fault) *relay.ActionError {
		if refusedWith(err, "peer_id_invalid", "chat was deactivated") {
			return relay.Gone(f.Message, nil)
		}
		return relay.Refused(cmp.Or(f.Message, "Bad Request"), nil)
	})
}

// refusedWith reports whether the API refused the call, with an error 400 that contains one of phrases, which are in
// lower case.
func refusedWith(err error, phrases ...string) bool {
	f := httpcall.FaultOf(err)
	said := strings.ToLower(f.Message)
	return f.Refused(http.StatusBadRequest) &&
		slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(said, p) })
}

// refusedForGood reports whether the API would refuse the same question again. After a wrong token (401, 404) or a rate
// limit (429) it might not.
func refusedForGood(err error) bool {
	f := httpcall.FaultOf(err)
	return f.Refused(http.StatusBadRequest) || f.Refused(http.StatusForbidden)
}

// refusedToken reports whether the API knows no bot of this token.
func refusedToken(err error) bool {
	f := httpcall.FaultOf(err)
	return f.Refused(http.StatusUnauthorized) || f.Refused(http.StatusNotFound)
}

// refusedFormat reports whether the API did not accept the entities, or an address in them.
func refusedFormat(err error) bool { return refusedWith(err, "entit", "url", "can't parse") }

// refusedThread reports whether the topic is gone, or is one of a private chat, which some versions of the server do
// not know.
func refusedThread(err error) bool { return refusedWith(err, "message thread not found") }

// refusedReply reports whether the message replied to is gone.
func refusedReply(err error) bool {
	return refusedWith(err, "message to be replied not found", "replied message not found", "message to reply not found")
}

// refusedFile: the API did not accept the file as the type it was sent as. The API has many words for that, so every
// refusal counts, except one that shows that the chat accepts nothing at all.
func refusedFile(err error) bool {
	return httpcall.FaultOf(err).Refused(http.StatusBadRequest) && movedTo(err) == 0 &&
		!refusedWith(err, "chat not found", "peer_id_invalid", "deactivated", "was kicked", "was blocked")
}

// refusedEmpty reports whether nobody could see anything of the text.
func refusedEmpty(err error) bool {
	return refusedWith(err, "message text is empty", "text must be non-empty", "message must be non-empty")
}

// movedTo returns the new id of a chat if the API refused a call because the chat has moved; else 0.
func movedTo(err error) int64 {
	to, _ := httpcall.FaultOf(err).Detail.(int64)
	return to
}
