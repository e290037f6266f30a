package discord

import (
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Descriptor implements platforms.Platform, with the values of the gateway's own Discord adapter.
func (p *Platform) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform:         Name,
		Label:            "Discord",
		MaxMessageLength: maxText,
		LenUnit:          relay.LenChars,
		MarkdownDialect:  "discord",
		SupportsThreads:  true,
		Emoji:            "🎮",
	}
}

// rates leaves the pace to Discord, which names its limits with every answer (limits); the gate
// keeps the order within a chat and the silences Discord demands.
func rates() pace.Limits { return pace.Limits{} }
