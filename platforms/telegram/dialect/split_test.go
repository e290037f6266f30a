package dialect

import (
	"maps"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// dense is s without blanks.
func dense(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, s)
}

// checkParts splits r and fails the test unless every part is one Telegram takes, nothing but
// blanks is lost, and every visible unit keeps its formats.
func checkParts(t platformtest.Failer, r Rich, limit int) {
	t.Helper()
	parts := Split(r, limit)
	whole := utf16.Encode([]rune(r.text))
	var all strings.Builder
	covered := func(list []Style, from, at int) map[Style]bool {
		out := make(map[Style]bool)
		for _, e := range list {
			if e.Offset <= at-from && at-from < e.end() {
				e.Offset, e.Length = 0, 0
				out[e] = true
			}
		}
		return out
	}
	for i, p := range parts {
		units := utf16.Encode([]rune(p.Text))
		switch {
		case len(units) > limit:
			t.Fatalf("part %d has %d units, limit is %d: %q", i, len(units), limit, p.Text)
		case len(p.Entities) > MaxEntities:
			t.Fatalf("part %d has %d entities", i, len(p.Entities))
		case strings.TrimSpace(p.Text) == "":
			t.Fatalf("part %d is blank", i)
		}
		checkLegal(t, p.Text, p.Entities)
		for j, u := range units {
			if whole[p.At+j] != u {
				t.Fatalf("part %d does not stand at %d", i, p.At)
			}
			if markdown.IsSpace(u) {
				continue
			}
			if got, want := covered(p.Entities, p.At, p.At+j), covered(r.entities, 0, p.At+j); !maps.Equal(got, want) {
				t.Fatalf("formats of unit %d of part %d of %q are %v, want %v", j, i, r.text, got, want)
			}
		}
		all.WriteString(p.Text)
	}
	if got, want := dense(all.String()), dense(r.text); got != want {
		t.Fatalf("split to %q, want %q", got, want)
	}
}

func texts(parts []Part) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Text)
	}
	return out
}

func TestSplit(t *testing.T) {
	cut := func(t *testing.T, source string) []string {
		r := Render(source)
		checkParts(t, r, 20)
		return texts(Split(r, 20))
	}
	platformtest.Cuts(t, cut)
	for name, tc := range map[string]struct {
		in   string // markdown
		want []string
	}{
		"no pair of surrogates":           {"x" + strings.Repeat("😀", 12), []string{"x" + strings.Repeat("😀", 9), "😀😀😀"}},
		"nor in a row of flags":           {"🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪", []string{"🇩🇪🇩🇪🇩🇪🇩🇪🇩🇪", "🇩🇪"}},
		"no flag is torn":                 {"xxxxxxxxxxxxxxxxxx🇩🇪x", []string{"xxxxxxxxxxxxxxxxxx", "🇩🇪x"}},
		"code is kept whole if it can be": {"aaaa bbbb cc\n```\nd\n\ne\nf\ng\nh\n```", []string{"aaaa bbbb cc", "d\n\ne\nf\ng\nh"}},
		"code is cut between lines":       {"```\n  aaaaaaaa\n  bbbbbbbb\n  cc\n```", []string{"  aaaaaaaa", "  bbbbbbbb\n  cc"}},
		"blank lines at a cut":            {"aaaa bbbb cccc\n\n\n\n- dddd eeee", []string{"aaaa bbbb cccc", "• dddd eeee"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, cut(t, tc.in)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitClosesAndReopensFormats(t *testing.T) {
	parts := Split(Render("**aaaa *bbbb cccc dddd* eeee**\n```go\nffff\ngggg\nhhhh\niiii\n```"), 20)
	var got [][]string
	for _, p := range parts {
		got = append(got, marked(p.Text, p.Entities))
	}
	want := [][]string{
		{"bold:aaaa bbbb cccc dddd", "italic:bbbb cccc dddd"},
		{"bold:eeee", "pre:ffff\ngggg\nhhhh@go"},
		{"pre:iiii@go"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("formats (-want +got):\n%s", diff)
	}
	got = nil
	for _, p := range Split(Render("```go\nffff\ngggg\nhhhh\niiii\njjjj\n```"), 12) {
		got = append(got, marked(p.Text, p.Entities))
	}
	want = [][]string{{"pre:ffff\ngggg@go"}, {"pre:hhhh\niiii@go"}, {"pre:jjjj@go"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("code blocks (-want +got):\n%s", diff)
	}
}

func TestSplitCountsEntities(t *testing.T) {
	r := Render(strings.Repeat("**b** `c` ", 125)) // 250 formats in 500 units
	checkParts(t, r, MaxText)
	parts := Split(r, MaxText)
	var counts []int
	for _, p := range parts {
		counts = append(counts, len(p.Entities))
	}
	if diff := cmp.Diff([]int{100, 100, 50}, counts); diff != "" {
		t.Errorf("entities per part (-want +got):\n%s", diff)
	}
}

func TestSplitConserves(t *testing.T) {
	pieces := []string{
		"word", "longer-word", " ", "  ", "\n", "\n\n", "**bold**", "*it*", "`code`", "😀", "e\u0301", "👩\u200d👧", "🇩🇪",
		"\n```go\n", "\n> ", "\n- ", "한국어", "\n# h\n", "[l](https://e.org)", "\u00a0", strings.Repeat("x", 30),
	}
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 60).Draw(t, "pieces"), "")
		limit := rapid.IntRange(8, 80).Draw(t, "limit")
		checkParts(t, Render(source), limit)
		checkParts(t, Plain(source), limit)
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("aaaa bbbb\n\ncccc **dddd** `e`", 10)
	f.Add("```go\na\nb\n```", 3)
	f.Add("😀😀\u200d😀e\u0301 ", 2)
	f.Add("\u2000😀", 2)
	f.Add(" 🇩🇪🇩🇪", 8)
	f.Fuzz(func(t *testing.T, source string, limit int) {
		if len(source) > 1<<10 || limit < 2 || limit > MaxText {
			return
		}
		source = markdown.Clean(source)
		checkParts(t, Plain(source), limit)
		checkParts(t, Render(source), limit)
	})
}

func TestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if diff := cmp.Diff(utf16.Encode([]rune(s)), Encode(s), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Encode(%q) (-want +got):\n%s", s, diff)
		}
	})
}
