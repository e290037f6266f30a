package guilds

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestWhoseMessage(t *testing.T) {
	const path = "/channels/14/messages/77"
	for name, tc := range map[string]struct {
		chat    relay.ChatID
		message relay.MessageID
		says    string
		want    bool
		wantErr bool
		unasked bool
	}{
		"the bot's":            {says: `{"id":"77","author":{"id":"7"}}`, want: true},
		"a person's":           {says: `{"id":"77","author":{"id":"101"}}`},
		"gone":                 {says: "404", wantErr: true},
		"not for the bot":      {says: "403", wantErr: true},
		"without an author":    {says: `{"id":"77"}`, wantErr: true},
		"a message by no id":   {message: "77/../1", wantErr: true, unasked: true},
		"a channel by no id":   {chat: "../14", wantErr: true, unasked: true},
		"an id of nothing":     {message: "@original", wantErr: true, unasked: true},
		"no message named yet": {message: " ", wantErr: true, unasked: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.chat == "" {
					tc.chat = "14"
				}
				if tc.message == "" {
					tc.message = "77"
				}
				api := &scripted{says: map[string][]string{path: {tc.says}}}
				got, err := knowing(testGuilds(t), api).IsOwn(t.Context(), tc.chat, tc.message)
				if got != tc.want || (err != nil) != tc.wantErr {
					t.Errorf("own: %t, %v; want %t, an error: %t", got, err, tc.want, tc.wantErr)
				}
				if want := []string{path}; tc.unasked && len(api.asked) > 0 || !tc.unasked && !slices.Equal(api.asked, want) {
					t.Errorf("asked %q", api.asked)
				}
			})
		})
	}
}
