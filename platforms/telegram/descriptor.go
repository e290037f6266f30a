package telegram

import (
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// What a Telegram bot can do for a gateway.
var (
	_ platforms.Editor       = (*Platform)(nil)
	_ platforms.Typer        = (*Platform)(nil)
	_ platforms.Reacter      = (*Platform)(nil)
	_ platforms.Deleter      = (*Platform)(nil)
	_ platforms.ChatInformer = (*Platform)(nil)
	_ platforms.Gatekeeper   = (*Platform)(nil)
)

// Descriptor implements platforms.Platform, with the values of the gateway's own Telegram adapter.
func (p *Platform) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform:         Name,
		Label:            "Telegram",
		MaxMessageLength: maxText,
		LenUnit:          relay.LenUTF16,
		MarkdownDialect:  "markdown_v2",
		SupportsThreads:  true,
		Emoji:            "✈️",
	}
}

// rates is what Telegram is known to bear: about 30 messages a second for a bot and, once a burst
// is used up, one a second in a chat and 20 a minute in a group or channel. The true limits are
// not published, and Telegram's own "retry after" counts in any case; so the bursts are wide
// enough for a long reply in many parts, and what comes after them is paced.
func rates() pace.Limits {
	return pace.Limits{
		Bot:     pace.Rate{Every: 40 * time.Millisecond, Burst: 5}, // at most 30 in a second
		Chat:    pace.Rate{Every: time.Second, Burst: 20},
		Crowd:   pace.Rate{Every: 3 * time.Second, Burst: 20},
		IsCrowd: func(chat relay.ChatID) bool { return strings.HasPrefix(string(chat), "-") },
	}
}
