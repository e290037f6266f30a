package gateway

import "testing"

// TestTarget: the token goes there, so it must be encrypted wherever the API is.
func TestTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		clear         bool
		address, want string
	}{
		"Discord's own":       {false, "wss://gateway.discord.gg", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"with a query":        {false, "wss://gateway.discord.gg/?v=9&compress=zlib-stream", "wss://gateway.discord.gg/?encoding=json&v=10"},
		"in the clear":        {false, "ws://gateway.discord.gg", ""},
		"a test server":       {true, "ws://127.0.0.1:1", "ws://127.0.0.1:1/?encoding=json&v=10"},
		"a server behind TLS": {false, "ws://proxy.example", ""},
		"no web socket":       {false, "https://gateway.discord.gg", ""},
		"nothing":             {false, "", ""},
		"nonsense":            {false, "://", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := New(Options{Clear: tc.clear}, Session{}).target(tc.address)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("target = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
