package discord

import (
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
