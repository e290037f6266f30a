package slack

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestCheckTokens(t *testing.T) {
	for token, ok := range map[string]bool{
		"": false, "xoxb-1-2-abc": true, "xoxb-": false, "xoxb-1 2": false, "xapp-1-A1-1-a": false, "xoxp-1-2": false,
	} {
		if err := checkToken(relay.NewSecret([]byte(token))); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
	for token, id := range map[string]relay.BotID{
		"": "", "xapp-1-A0123ABC-4567-89ef": "A0123ABC", "xapp-1-B0123-1-a": "", "xapp-2-A0-1-a": "", "xoxb-1-2-abc": "",
		"xapp-1-A0123ABC-4567-89ef\n": "",
	} {
		s := relay.NewSecret([]byte(token))
		if err := checkAppToken(s); (err == nil) != (id != "") || appID(s) != id {
			t.Errorf("%q: %v, the app %q, want %q", token, err, appID(s), id)
		}
	}
}
