package gateway

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestTarget: the token goes there, so it must be encrypted wherever the API is.
func TestTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		base, address, want string
	}{
		"Discord's own":       {"", "wss://gateway.discord.gg", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"with a query":        {"", "wss://gateway.discord.gg/?v=9&compress=zlib-stream", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"in the clear":        {"", "ws://gateway.discord.gg", ""},
		"a test server":       {"http://127.0.0.1:1/api", "ws://127.0.0.1:1", "ws://127.0.0.1:1/?encoding=json&v=10"},
		"a server behind TLS": {"https://proxy.example/api", "ws://proxy.example", ""},
		"no web socket":       {"", "https://gateway.discord.gg", ""},
		"nothing":             {"", "", ""},
		"nonsense":            {"", "://", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := New(Options{Rest: rest.New(relay.Secret{}, tc.base, nil)}, Session{}).target(tc.address)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("target = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
