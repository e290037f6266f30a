package cli

import (
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/matrix"
	"github.com/hermes-connector/hermes-connector/platforms/signal"
	"github.com/hermes-connector/hermes-connector/platforms/slack"
	"github.com/hermes-connector/hermes-connector/platforms/sms"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/platforms/webhook"
	"github.com/hermes-connector/hermes-connector/platforms/wecom"
	"github.com/hermes-connector/hermes-connector/platforms/whatsapp"
)

// networks returns the networks of [[bots]], and the chat of the web pages, which no [[bots]] table makes.
func networks() []platforms.Network { return append(configurable(), local.WebNetwork) }

// configurable returns the networks that a [[bots]] table can name, one line each.
func configurable() []platforms.Network {
	return []platforms.Network{
		discord.Network,
		telegram.Network,
		slack.Network,
		matrix.Network,
		signal.Network,
		whatsapp.Network,
		sms.Network,
		wecom.Network,
		webhook.Network,
		local.LoopbackNetwork,
	}
}

// platformNames returns the names of all.
func platformNames(all []platforms.Network) []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = string(k.Name)
	}
	return names
}
