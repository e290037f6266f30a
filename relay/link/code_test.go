package link

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestParseCode(t *testing.T) {
	for name, tc := range map[string]struct {
		typed string
		want  string // empty: no code
	}{
		"as shown":               {"KQ2-9F4-M7X", "KQ29F4M7X"},
		"an older one":           {"7KQ2-9F4M", "7KQ29F4M"},
		"without dash":           {"7KQ29F4M", "7KQ29F4M"},
		"small letters":          {"7kq2-9f4m", "7KQ29F4M"},
		"blanks":                 {" 7KQ2 9F4M ", "7KQ29F4M"},
		"blanks and dash":        {"7KQ2 - 9F4M", "7KQ29F4M"},
		"one symbol at a time":   {"7 K Q 2 9 F 4 M", "7KQ29F4M"},
		"en dash":                {"7KQ2–9F4M", "7KQ29F4M"},
		"em dash":                {"7KQ2—9F4M", "7KQ29F4M"},
		"minus sign":             {"7KQ2−9F4M", "7KQ29F4M"},
		"hyphen that never ends": {"7KQ2\u20119F4M", "7KQ29F4M"},
		"soft hyphen":            {"7KQ2\u00ad9F4M", "7KQ29F4M"},
		"blank of no width":      {"7KQ2\u200b9F4M", "7KQ29F4M"},
		"blank that holds":       {"7KQ2\u00a09F4M", "7KQ29F4M"},
		"letters like digits":    {"AoOIi-LlAB", "A001111AB"},
		"nothing":                {"", ""},
		"only dashes":            {"----", ""},
		"one too few":            {"7KQ2-9F4", ""},
		"one too many":           {"7KQ2-9F4MXY", ""},
		"a letter no code has":   {"7KQU-9F4M", ""},
		"a letter from afar":     {"7KQ2-9F4Ш", ""},
		"a letter that folds":    {"7KQ2-9F4ſ", ""},
		"punctuation":            {"7KQ2.9F4M", ""},
		"broken text":            {"7KQ2-9F4\xff", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseCode(tc.typed)
			if ok != (tc.want != "") || (ok && got != tc.want) {
				t.Errorf("parseCode(%q) = %q, %v; want %q", tc.typed, got, ok, tc.want)
			}
		})
	}
}

func TestNewCode(t *testing.T) {
	for range 10_000 {
		code := newCode()
		if got, ok := parseCode(display(code)); !ok || got != code {
			t.Fatalf("code %s is read back as %q, %v", display(code), got, ok)
		}
		if len(code) != codeLen || code[0] < 'A' || code[0] > 'Z' {
			t.Fatalf("code %s, want %d symbols of which the first is a letter", code, codeLen)
		}
	}
}

func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		chat     relay.ChatType // empty: a direct message
		platform relay.PlatformID
		other    bool
		deep     bool // the network says that a deep link was opened
		want     string
		ok       bool
	}{
		"link with a code":                 {text: "/link 7KQ2-9F4M", want: "7KQ2-9F4M", ok: true},
		"link, badly typed":                {text: "  /Link   7kq2 9f4m \n", want: "7kq2 9f4m", ok: true},
		"link on a line of its own":        {text: "/link\n7KQ2-9F4M", want: "7KQ2-9F4M", ok: true},
		"link for this bot":                {text: "/link@our_bot 7KQ2-9F4M", want: "7KQ2-9F4M", ok: true},
		"link for another bot":             {text: "/link@their_bot 7KQ2-9F4M", other: true},
		"link without a code":              {text: "/link", ok: true},
		"link with something else":         {text: "/link my account", want: "my account", ok: true},
		"link elsewhere":                   {text: "/link 7KQ2-9F4M", platform: "discord", want: "7KQ2-9F4M", ok: true},
		"another command":                  {text: "/linked 7KQ2-9F4M"},
		"a code alone":                     {text: "7KQ2-9F4M"},
		"a code in a sentence":             {text: "type /link 7KQ2-9F4M"},
		"nothing":                          {text: ""},
		"a slash":                          {text: "/"},
		"deep link":                        {deep: true, text: "/start 7KQ2-9F4M", want: "7KQ2-9F4M", ok: true},
		"deep link without dash":           {deep: true, text: "/start 7KQ29F4M", want: "7KQ29F4M", ok: true},
		"deep link elsewhere":              {text: "/start 7KQ2-9F4M", platform: "discord"},
		"deep link of another name":        {text: "/begin 7KQ2-9F4M", platform: "discord", deep: true, want: "7KQ2-9F4M", ok: true},
		"bot opened for the first time":    {deep: true, text: "/start"},
		"deep link with another payload":   {deep: true, text: "/start invite_77"},
		"start with eight letters of talk": {deep: true, text: "/start 7KQ2 9F4M"},
		"group: link with a code":          {text: "/link 7KQ2-9F4M", chat: relay.ChatGroup, want: "7KQ2-9F4M", ok: true},
		"channel: link with a code":        {text: "/link 7KQ2-9F4M", chat: relay.ChatChannel, want: "7KQ2-9F4M", ok: true},
		"thread: link with a code":         {text: "/link 7KQ2-9F4M", chat: relay.ChatThread, want: "7KQ2-9F4M", ok: true},
		"unnamed place: link with a code":  {text: "/link 7KQ2-9F4M", chat: "other", want: "7KQ2-9F4M", ok: true},
		"group: link without a code":       {text: "/link", chat: relay.ChatGroup},
		"group: link with something else":  {text: "/link my account", chat: relay.ChatGroup},
		"group: deep link":                 {deep: true, text: "/start 7KQ2-9F4M", chat: relay.ChatGroup},
		"group: link for another bot":      {text: "/link@their_bot 7KQ2-9F4M", chat: relay.ChatGroup, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			ev := event("ann", tc.text)
			ev.Traits.OtherCommand, ev.Traits.DeepLink = tc.other, tc.deep
			if tc.chat != "" {
				ev.Source.ChatType = tc.chat
			}
			if tc.platform != "" {
				ev.Source.Platform = tc.platform
			}
			got, ok := Command(ev)
			if ok != tc.ok || ok && got != (Control{verb: verbLink, typed: tc.want}) {
				t.Errorf("Command(%q) = %+v, %v; want %q, %v", tc.text, got, ok, tc.want, tc.ok)
			}
			if !ok && got != (Control{}) {
				t.Errorf("Command(%q) is no command, but is %+v", tc.text, got)
			}
		})
	}
}

func FuzzCommand(f *testing.F) {
	for _, text := range []string{"/link 7KQ2-9F4M", "/start 7kq29f4m", "/link@bot x", "/link\u00a0a", "", "/", "/link@"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, group bool) {
		ev := event("ann", text)
		ev.Traits.DeepLink = strings.HasPrefix(strings.TrimSpace(text), "/start")
		if group {
			ev.Source.ChatType = relay.ChatGroup
		}
		c, ok := Command(ev)
		typed := c.typed
		code, shaped := parseCode(typed)
		if ok && !strings.HasPrefix(strings.TrimSpace(text), "/") {
			t.Errorf("Command(%q): text that is no command is control", text)
		}
		if ok && group && !shaped {
			t.Errorf("Command(%q): control in a group without a code", text)
		}
		if !shaped {
			return
		}
		again, ok := parseCode(display(code))
		if !ok || again != code || strings.Trim(code, alphabet) != "" {
			t.Errorf("parseCode(%q) = %q, read again as %q, %v", typed, code, again, ok)
		}
	})
}
