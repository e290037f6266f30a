package telegram

import (
	"slices"
	"strings"
)

// reactions are the emoji Telegram lets bots react with (Bot API, ReactionTypeEmoji), exactly as it
// spells them: none has a variation selector or a skin tone, and it refuses those that have one.
// Those that look alike with and without a selector, or are joined of several, are written in numbers.
const reactions = "\u2764 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 \U0001f54a 🤡 🥱 🥴 😍 🐳 \u2764\u200d\U0001f525 🌚 🌭 💯 🤣 " +
	"\u26a1 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 \U0001f468\u200d\U0001f4bb 👀 🎃 🙈 😇 😨 🤝 \u270d 🤗 🫡 🎅 🎄 \u2603 " +
	"💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 \U0001f937\u200d\u2642 🤷 \U0001f937\u200d\u2640 😡 "

// allowed is emoji as Telegram spells it, or what stands for it among the reactions. Gateways up to
// August 2026 end a turn with marks that are not among them. What is neither stays as it is: Telegram
// says that it does not take it, or takes it because its list has grown.
func allowed(emoji string) string {
	bare := strings.Map(func(r rune) rune {
		if r == '\ufe0e' || r == '\ufe0f' || r >= '\U0001f3fb' && r <= '\U0001f3ff' { // variation selectors, skin tones
			return -1
		}
		return r
	}, emoji)
	if slices.Contains(strings.Fields(reactions), bare) {
		return bare
	}
	switch bare {
	case "\u2705", "\u2714", "\u2611": // ticks
		return "👍"
	case "\u274c", "\u2716": // crosses
		return "👎"
	}
	return emoji
}
