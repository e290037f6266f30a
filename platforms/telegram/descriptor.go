package telegram

import (
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

// rates is what Telegram is known to bear from a bot: about 30 messages a second. What it bears in
// one chat is not published, differs from chat to chat and allows bursts; there its own "retry
// after" is the measure, and a tighter guess of ours would refuse what Telegram accepts. Ten a
// second, and the shares, only keep a gateway that has run wild, in one chat or in a hundred, from using up
// the bot for all others.
func rates() pace.Limits {
	return pace.Limits{
		Bot:      pace.Rate{Every: 40 * time.Millisecond, Burst: 5}, // at most 30 in a second
		Chat:     pace.Rate{Every: 100 * time.Millisecond, Burst: 60},
		Share:    pace.Rate{Every: time.Second, Burst: 5},
		Instance: pace.Rate{Every: 125 * time.Millisecond, Burst: 3},
	}
}
