package help

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTopics(t *testing.T) {
	if len(Topics()) == 0 {
		t.Fatal("no topic")
	}
	for _, topic := range Topics() {
		t.Run(topic.Name, func(t *testing.T) {
			text, ok := Text(topic.Name)
			if !ok || !strings.HasPrefix(text, "# ") || topic.Title == "" || !strings.HasSuffix(text, "\n") {
				t.Errorf("want a text that begins with a title and ends with a line's end, got %.40q", text)
			}
			for line := range strings.SplitSeq(Plain(text), "\n") {
				code := strings.HasPrefix(line, "      ")
				if n := utf8.RuneCountInString(line); n > Width && !code && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("a line of %d characters: %s", n, line)
				}
				if strings.Contains(line, "**") || strings.Contains(line, "](") {
					t.Errorf("markdown is left: %s", line)
				}
			}
			for _, m := range linkForm.FindAllStringSubmatch(text, -1) {
				other, local := strings.CutSuffix(m[2], ".md")
				if _, ok := Text(other); local && !ok {
					t.Errorf("links to %s, which is no topic", m[2])
				}
				if !local && !strings.HasPrefix(m[2], "https://") {
					t.Errorf("links to %s, which no terminal can open", m[2])
				}
			}
		})
	}
}

func TestNoTopic(t *testing.T) {
	for _, name := range []string{"", "nope", "glossary.md", "../help/glossary", "."} {
		if text, ok := Text(name); ok {
			t.Errorf("Text(%q) = %.20q", name, text)
		}
	}
}

func TestPlain(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for name, tc := range map[string]struct{ in, want string }{
		"a title and a paragraph":     {"# Title\n\nOne **two**\nthree `four`.\n", "Title\n\n  One two three `four`.\n"},
		"a link to a topic":           {"See [proxies](proxy.md).\n", "  See proxies (`hermes-connector help proxy`).\n"},
		"a link elsewhere":            {"[Go](https://go.dev)\n", "  Go (https://go.dev)\n"},
		"a long line":                 {long, "  " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n  word word word word word\n"},
		"a command stays whole":       {strings.Repeat("word ", 14) + "`a command`", "  " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n  `a command`\n"},
		"a list":                      {"- one\n- two\n  goes on\n\nAfter.\n", "  - one\n  - two goes on\n\n  After.\n"},
		"a list below a list":         {"- one\n  - two\n- three\n", "  - one\n    - two\n  - three\n"},
		"a list with gaps":            {"1. one\n\n2. two\n", "  1. one\n\n  2. two\n"},
		"indented code":               {"So:\n\n    a  b\n      c\n\n    d\n\nThen.\n", "  So:\n\n      a  b\n        c\n\n      d\n\n  Then.\n"},
		"code that looks like a list": {"So:\n\n    x\n    - a\n", "  So:\n\n      x\n      - a\n"},
		"fenced code":                 {"So:\n\n```sh\na **b**\n\nc\n```\n\nThen.\n", "  So:\n\n      a **b**\n\n      c\n\n  Then.\n"},
		"code in an item":             {"1. Do:\n\n       run it\n\n   and wait.\n\nEnd.\n", "  1. Do:\n\n         run it\n\n     and wait.\n\n  End.\n"},
		"a narrow table":              {"| op | sms | web |\n|---|---|---|\n| send | ✓ | |\n| edit | | ✓ |\n\nThen.\n", "  op    sms  web\n  send  ✓\n  edit       ✓\n\n  Then.\n"},
		"a wide table of two":         {"| you see | do |\n|---|---|\n| `a` | " + long + "|\n| c | d |\n", "  `a`\n      " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\n      word word word word word\n\n  c\n      d\n"},
		"a wide table of three":       {"| op | sms | web |\n|---|---|---|\n| send | " + long + "| x |\n| edit | | yes |", "  send\n      sms: " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n      word word word word word word\n      web: x\n\n  edit\n      web: yes\n"},
		"a heading below":             {"# A\n\nx\n\n## B\n\ny\n", "A\n\n  x\n\nB\n\n  y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Plain(tc.in); got != tc.want {
				t.Errorf("Plain(%q) =\n%s\nwant\n%s", tc.in, got, tc.want)
			}
		})
	}
}
