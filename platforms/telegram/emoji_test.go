package telegram

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryReactionAsTelegramSpellsIt: models, and people's keyboards, add selectors and skin tones to
// what Telegram takes only without.
func TestEveryReactionAsTelegramSpellsIt(t *testing.T) {
	all := strings.Fields(reactions)
	if n := len(slices.Compact(slices.Sorted(slices.Values(all)))); n != 73 || len(all) != n {
		t.Errorf("%d reactions, %d different ones; Telegram lists 73", len(all), n)
	}
	const joiner = "\u200d"
	added := []string{"", "\ufe0f", "\ufe0e", "\U0001f3fb", "\U0001f3fc", "\U0001f3fd", "\U0001f3fe", "\U0001f3ff", "\U0001f3fd\ufe0f"}
	for _, want := range all {
		first, rest, joined := strings.Cut(want, joiner)
		for _, one := range added {
			spelled := []string{want + one}
			if joined {
				spelled = append(spelled, first+one+joiner+rest, first+one+joiner+rest+"\ufe0f")
			}
			for _, s := range spelled {
				if got := allowed(s); got != want {
					t.Errorf("%+q is sent as %+q, want %+q", s, got, want)
				}
			}
		}
	}
}

func TestOtherReactions(t *testing.T) {
	for emoji, want := range map[string]string{
		"✅": "👍", "✔": "👍", "✔\ufe0f": "👍", "☑": "👍", "☑\ufe0f": "👍", "❌": "👎", "✖": "👎", "✖\ufe0f": "👎",
		// For Telegram to refuse: nothing of them is changed.
		"🛠\ufe0f": "🛠\ufe0f", "👋\U0001f3fd": "👋\U0001f3fd", "🧑\U0001f3fd\u200d💻": "🧑\U0001f3fd\u200d💻",
		"👍👍": "👍👍", "\U0001f3fd": "\U0001f3fd", "": "", "ok": "ok", "❤\u200d🩹": "❤\u200d🩹", "\xff": "\xff",
	} {
		if got := allowed(emoji); got != want {
			t.Errorf("%+q is sent as %+q, want %+q", emoji, got, want)
		}
	}
}
