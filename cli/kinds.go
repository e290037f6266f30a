package cli

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/sms"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/platforms/webhook"
	"github.com/hermes-connector/hermes-connector/platforms/wecom"
)

// networks are kinds and the chat of the web pages, which no [[bots]] table makes.
func networks() []platforms.Kind { return append(kinds(), local.WebKind) }

// kinds are the platforms in this binary, one line each.
func kinds() []platforms.Kind {
	return []platforms.Kind{
		discord.Kind,
		telegram.Kind,
		sms.Kind,
		wecom.Kind,
		webhook.Kind,
		local.LoopbackKind,
	}
}

// platformNames are the names of all.
func platformNames(all []platforms.Kind) []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = string(k.Name)
	}
	return names
}
