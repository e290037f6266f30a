package plain_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/markdown/plain"
)

func one(rune) int { return 1 }

func TestRender(t *testing.T) {
	for source, want := range map[string]string{
		"just *text* with **bold** and ~~gone~~":    "just text with bold and gone",
		"# Title\n\ntext":                           "Title\n\ntext",
		"- a\n- b\n  1. c":                          "- a\n- b\n  1. c",
		"- [x] done\n- [ ] not":                     "- [x] done\n- [ ] not",
		"see [the page](https://example.net/a)":     "see the page (https://example.net/a)",
		"<https://example.net> and a@example.net":   "https://example.net and a@example.net",
		"[mail](mailto:a@example.net)":              "mail (a@example.net)",
		"![a cat](https://example.net/c.png)":       "a cat (https://example.net/c.png)",
		"[](https://example.net)":                   "https://example.net",
		"> quoted\n> twice":                         "> quoted\n> twice",
		"> [a@example.net](mailto:a@example.net)":   "> a@example.net",
		"`x := 1` and\n\n```go\nfmt.Println()\n```": "x := 1 and\n\nfmt.Println()",
		`5 \* 3 &lt; 16`:                            "5 * 3 < 16",
		"a<br>b":                                    "a<br>b",
	} {
		if got := plain.Render(source); got != want {
			t.Errorf("%q:\n%s", source, cmp.Diff(want, got))
		}
	}
}

func TestParts(t *testing.T) {
	long := strings.Repeat("Grüße und mehr. ", 300)
	bytes := func(r rune) int { return utf8.RuneLen(r) }
	for name, tc := range map[string]struct {
		limit int
		size  func(rune) int
	}{"characters": {1600, one}, "bytes": {2048, bytes}, "few bytes": {7, bytes}} {
		t.Run(name, func(t *testing.T) {
			parts, err := plain.Parts(long, tc.limit, tc.size)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				n := 0
				for _, r := range p {
					n += tc.size(r)
				}
				if n > tc.limit || !utf8.ValidString(p) {
					t.Errorf("a part of %d: %q", n, p)
				}
			}
			strip := func(s string) string { return strings.Join(strings.Fields(s), "") }
			if got := strip(strings.Join(parts, " ")); got != strip(long) {
				t.Error("something was lost")
			}
		})
	}
	if _, err := plain.Parts(" \n", 10, one); err != plain.ErrEmpty {
		t.Errorf("empty: %v", err)
	}
	if _, err := plain.Parts(strings.Repeat("x", 1<<17+1), 10, one); err != plain.ErrTooLong {
		t.Errorf("long: %v", err)
	}
}
