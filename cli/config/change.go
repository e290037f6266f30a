package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Restart returns the settings that differ in next and that a running server cannot take over, by their paths, sorted.
// A running server takes over [[bots]], [replies] and log.level.
func (c *Config) Restart(next *Config) (out []string) {
	both := maps.Clone(c.values)
	maps.Copy(both, next.values)
	for path, value := range both {
		before, was := c.values[path]
		_, is := next.values[path]
		if path != "log.level" && !strings.HasPrefix(path, "replies.") && (was != is || before != value) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// Same reports whether b and o are the same bot with the same settings, so that a restart would change nothing. It
// ignores the address at which the program is reached: a new one needs a restart of the server.
func (b *Bot) Same(o *Bot) bool {
	x, y := b.Options, o.Options
	return b.Network.Name == o.Network.Name && x.APIBase == y.APIBase && x.Token.Same(y.Token) &&
		maps.Equal(x.Values, y.Values) && maps.EqualFunc(x.Secrets, y.Secrets, relay.Secret.Same)
}
