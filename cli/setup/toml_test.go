package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// TestChanges: what a file lacks comes at its end where that is enough, and else is said, line by line.
func TestChanges(t *testing.T) {
	listen, pages := setting{"", "listen", `"127.0.0.1:1"`}, setting{"web", "listen", `"127.0.0.1:2"`}
	cert := setting{"tls", "cert_file", `"c"`}
	bot := []setting{{key: "platform", value: `"telegram"`}}
	for name, tc := range map[string]struct {
		file  string
		lines []setting
		gone  []string
		bot   []setting
		want  string // the file afterwards; empty: it stays
		says  string // what is to be done by hand
	}{
		"a new file":            {"", []setting{pages, listen}, []string{"insecure"}, bot, "listen = \"127.0.0.1:1\"\n\n[web]\nlisten = \"127.0.0.1:2\"\n\n[[bots]]\nplatform = \"telegram\"\n", ""},
		"one of the package":    {"# about\ndata_dir = \"d\" # mine\n#[[bots]]", []setting{listen}, nil, nil, "# about\ndata_dir = \"d\" # mine\n#[[bots]]\n\nlisten = \"127.0.0.1:1\"\n", ""},
		"a value of many lines": {"trusted_proxies = [\n\"::1\",\n]\n", []setting{listen}, nil, nil, "trusted_proxies = [\n\"::1\",\n]\n\nlisten = \"127.0.0.1:1\"\n", ""},
		"all is there":          {"listen = '127.0.0.1:1' # so\n[web]\nlisten=\"127.0.0.1:2\"\n", []setting{listen, pages}, nil, nil, "", ""},
		"another value":         {"# a\nlisten = \"x:1\"\n", []setting{listen, pages}, nil, nil, "", "In place of line 2:\n\n  listen = \"127.0.0.1:1\"\n\nAt its end:\n\n  [web]\n  listen = \"127.0.0.1:2\"\n"},
		"sections":              {"[delivery]\nwindow = 2\n", []setting{listen}, nil, bot, "", "At its top, above the first [section]:\n\n  listen = \"127.0.0.1:1\"\n\nAt its end:\n\n  [[bots]]\n  platform = \"telegram\"\n"},
		"a section of ours":     {"[tls]\nkey_file = \"k\"\n", []setting{cert}, nil, nil, "", "Below [tls]:\n\n  cert_file = \"c\"\n"},
		"a dotted key":          {"tls.key_file = \"k\"\n", []setting{listen}, nil, nil, "", "At its top, above the first [section]:\n\n  listen = \"127.0.0.1:1\"\n"},
		"one line too many":     {"insecure = true\npublic_url = \"x\"\n", []setting{{"", "public_url", `"x"`}}, []string{"insecure", "public_url"}, nil, "", "Remove line 1, insecure.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, gone := lacking([]byte(tc.file), tc.lines, tc.gone)
			got, says := "", ""
			switch {
			case len(lines)+len(gone)+len(tc.bot) == 0:
			case extendable([]byte(tc.file), lines, gone):
				got = string(extended([]byte(tc.file), lines, tc.bot))
			default:
				says = byHand([]byte(tc.file), lines, gone, tc.bot)
			}
			if got != tc.want || says != tc.says {
				t.Errorf("it becomes\n%s\nand by hand\n%s, want\n%s\nand\n%s", got, says, tc.want, tc.says)
			}
		})
	}
}

// FuzzText: what is written as a TOML string is read as what it was.
func FuzzText(f *testing.F) {
	f.Add(`C:\a "b"` + "\n\x7f ü")
	f.Fuzz(func(t *testing.T, s string) {
		if all := config.Outline([]byte("a = " + text(s))); !strings.ContainsRune(s, '\uFFFD') && (len(all) != 1 || all[0].Text != s) {
			t.Errorf("%q is no TOML: %s", s, text(s))
		}
	})
}

// FuzzExtended: whatever stands in a file, what is added is there afterwards, and no line is lost.
func FuzzExtended(f *testing.F) {
	f.Add("a = [\n1,\n]\n# x\nb = \"\"\"\nlisten = 1\n\"\"\"")
	f.Add("listen = 'x' # y\nx = { a = \"}\" }")
	f.Fuzz(func(t *testing.T, s string) {
		lines := []setting{{"", "listen", `"h:1"`}, {"web", "listen", `"h:2"`}}
		before := config.Outline([]byte(s))
		if before == nil || !extendable([]byte(s), lines, nil) {
			return
		}
		out := extended([]byte(s), lines, []setting{{key: "platform", value: `"x"`}})
		after := config.Outline(out)
		missing, _ := lacking(out, lines, nil)
		if !strings.HasPrefix(string(out), s) || len(after) != len(before)+5 || !slices.Equal(after[:len(before)], before) || len(missing) > 0 {
			t.Errorf("%q became %q", s, out)
		}
	})
}
