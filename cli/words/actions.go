package words

import (
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// unlike are the actions of the audit list that are not called like their operations.
var unlike = map[string]string{
	"drop-answers": "buffer out --drop",
	"enroll-token": "enroll --token",
	"forget":       "unlink --forget",
	"link-code":    "link code",
	"name":         "people name",
	"policy":       "gateway policy",
	"route":        "reserved chats",
	"web-code":     "web",
}

// Action returns the words for an action of the audit list: those of the command that does it, if there is one. Scripts
// use the action's name.
func Action(name string) string {
	if said, ok := unlike[name]; ok {
		return said
	}
	op, ok := ops.Operators(name)
	if !ok {
		return name
	}
	said, _ := op.Words()
	return strings.Join(said, " ")
}
