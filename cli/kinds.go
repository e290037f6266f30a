package cli

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/loopback"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
)

// kinds are the platforms in this binary, one line each.
func kinds() []platforms.Kind {
	return []platforms.Kind{
		discord.Kind,
		telegram.Kind,
		loopback.Kind,
	}
}
