package dialect

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// glyph is a visible character, and whether it stands in a code block.
type glyph struct {
	c    rune
	code bool
}

var fenceLine = regexp.MustCompile("^(> )?```[A-Za-z0-9+._#-]{0,40}$")

// glyphs are the visible characters of texts one after the other, without the marks of quotations
// and without fences. It finds code blocks in its own, slow way. open reports a block without end.
func glyphs(texts ...string) (out []glyph, open bool) {
	for _, text := range texts {
		begun := ""
		for line := range strings.SplitSeq(text, "\n") {
			quote := ""
			if strings.HasPrefix(line, "> ") || strings.TrimRight(line, " ") == ">" {
				quote = "> "
			}
			bare := strings.TrimRightFunc(line, unicode.IsSpace)
			switch {
			case begun == "" && fenceLine.MatchString(bare):
				begun = "x" + quote
				continue
			case begun != "" && bare == begun[1:]+"```":
				begun = ""
				continue
			}
			for _, c := range strings.TrimPrefix(line, quote) {
				if !unicode.IsSpace(c) && c != '>' {
					out = append(out, glyph{c, begun != ""})
				}
			}
		}
		open = open || begun != ""
	}
	return out, open
}

// checkParts splits text, which is as render makes it, and fails the test unless every part is one
// Discord takes, nothing but blanks is lost, code stays code, and no block is left open.
func checkParts(t platformtest.Failer, text string, limit int) {
	t.Helper()
	parts := checkLimits(t, text, limit)
	for i, p := range parts {
		if _, open := glyphs(p); open {
			t.Fatalf("part %d of %q leaves a code block open: %q", i, text, p)
		}
	}
	want, _ := glyphs(text)
	got, _ := glyphs(parts...)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(glyph{})); diff != "" {
		t.Fatalf("%q\nwas split to %q (-want +got):\n%s", text, parts, diff)
	}
}

// checkLimits splits any text, also one that render left alone, and fails the test unless every
// part is one Discord takes and every letter is in one.
func checkLimits(t platformtest.Failer, text string, limit int) []string {
	t.Helper()
	parts := Split(text, limit)
	for i, p := range parts {
		switch {
		case utf8.RuneCountInString(p) > limit:
			t.Fatalf("part %d of %q has %d code points, limit is %d: %q", i, text, utf8.RuneCountInString(p), limit, p)
		case strings.TrimSpace(p) == "":
			t.Fatalf("part %d of %q is blank", i, text)
		case !utf8.ValidString(p):
			t.Fatalf("part %d of %q is not valid UTF-8", i, text)
		}
	}
	platformtest.CheckLetters(t, text, parts, platformtest.Letters(strings.Join(parts, "")))
	return parts
}

func TestSplit(t *testing.T) {
	platformtest.Cuts(t, func(_ *testing.T, source string) []string { return Split(source, 20) })
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"code points, not bytes or units":     {strings.Repeat("😀", 21), []string{strings.Repeat("😀", 20), "😀"}},
		"no flag is torn":                     {"xxxxxxxxxxxxxxxxxxx🇩🇪x", []string{"xxxxxxxxxxxxxxxxxxx", "🇩🇪x"}},
		"no bold is torn":                     {"aaaa bbbb cccc **d e** f", []string{"aaaa bbbb cccc", "**d e** f"}},
		"a long bold has to be":               {"**aaaa bbbb cccc dddd eeee**", []string{"**aaaa bbbb cccc", "dddd eeee**"}},
		"a quotation goes on":                 {"> aaaa bbbb cccc dddd eeee", []string{"> aaaa bbbb cccc", "> dddd eeee"}},
		"lines of a quotation":                {"> aaaa bbbb\n> \n> cccc dddd", []string{"> aaaa bbbb", "> cccc dddd"}},
		"no fence made of an end of a line":   {"aaaa bbbb cccc dddd ```", []string{"aaaa bbbb cccc", "dddd ```"}},
		"no fence made of a line's beginning": {"```aaaa bbbbbb cc dddddd", []string{"```aaaa bbbbbb cc", "dddddd"}},
		"indentation stays":                   {"- aaaa bbbb cccc\n  - dddd eeee", []string{"- aaaa bbbb cccc", "  - dddd eeee"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Split(tc.in, 20)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitClosesAndReopensFences(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  []string
	}{
		"code is kept whole if it can be": {
			"aaaa bbbb cccc dddd\n```\ne\n\nf\ng\n```", 30,
			[]string{"aaaa bbbb cccc dddd", "```\ne\n\nf\ng\n```"},
		},
		"between lines": {
			"```go\n  aaaaaaaa\n  bbbbbbbb\n\n  cc\n```\nd", 30,
			[]string{"```go\n  aaaaaaaa\n```", "```go\n  bbbbbbbb\n\n  cc\n```\nd"},
		},
		"within a line": {
			"```\n" + strings.Repeat("x", 50) + "\n```", 30,
			[]string{"```\n" + strings.Repeat("x", 22) + "\n```", "```\n" + strings.Repeat("x", 22) + "\n```", "```\nxxxxxx\n```"},
		},
		"within blanks": {
			"```\nx" + strings.Repeat(" ", 50) + "y\n```", 30,
			[]string{"```\nx" + strings.Repeat(" ", 21) + "\n```", "```\n" + strings.Repeat(" ", 22) + "\n```", "```\n" + strings.Repeat(" ", 7) + "y\n```"},
		},
		"in a quotation": {
			"> ```c\n> aaaaaaaaaa\n> bbbbbbbbbb\n> ```", 36,
			[]string{"> ```c\n> aaaaaaaaaa\n> ```", "> ```c\n> bbbbbbbbbb\n> ```"},
		},
		"within a line in a quotation": {
			"> ```c\n> " + strings.Repeat("x", 40) + "\n> ```", 36,
			[]string{"> ```c\n> " + strings.Repeat("x", 21) + "\n> ```", "> ```c\n> " + strings.Repeat("x", 19) + "\n> ```"},
		},
		"without an end": {
			"```\naaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbb", 30,
			[]string{"```\naaaaaaaaaaaaaaa\n```", "```\nbbbbbbbbbbbbbbb\n```"},
		},
		"the end just does not fit": {
			"```\naaaaaaaaaaaaaa\nbbbbbbb\n```", 29,
			[]string{"```\naaaaaaaaaaaaaa\n```", "```\nbbbbbbb\n```"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkParts(t, tc.in+"\n", tc.limit)
			if diff := cmp.Diff(tc.want, Split(tc.in, tc.limit)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitConserves(t *testing.T) {
	pieces := []string{
		"word", "longer-word", " ", "  ", "\n", "\n\n", "**bold**", "*it*", "`code`", "😀", "e\u0301", "👩\u200d👧", "🇩🇪",
		"\n```go\n", "\n```\n", "\n> ", "\n> ```py\n> ", "\n> ```\n", "\n- ", "한국어", "\n# h\n", "[l](https://e.org)", "\u00a0",
		strings.Repeat("x", 60), strings.Repeat("y\n", 60), strings.Repeat("\t", 150), "```", " ``` ", "``` a ```", "`````", "```go", "\\",
		"> ", "&#96;", "~~~", "    ", "![", "](", ")", "[^", "<b>", "|", "\n|-|\n", "1. ",
	}
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 80).Draw(t, "pieces"), "")
		limit := rapid.IntRange(100, 250).Draw(t, "limit")
		checkLimits(t, source, limit)
		checkParts(t, Render(Clean(source)), limit)
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("aaaa bbbb\n\ncccc **dddd** `e`", 100)
	f.Add("```go\na\nb\n```", 100)
	f.Add("> ```\n> a\n```\n> ```", 100)
	f.Add(" 🇩🇪🇩🇪\u2000e\u0301", 100)
	f.Add(strings.Repeat("x", 90)+"$```   ```\n\uFFFD", 100)
	f.Add(strings.Repeat("x ", 47)+"```go now```", 100)
	f.Add("```\n"+strings.Repeat("\t", 300)+"\n```", 100)
	f.Add("```go "+strings.Repeat("x", 95), 100)
	f.Add(strings.Repeat("x", 98)+"`````", 100)
	f.Fuzz(func(t *testing.T, source string, limit int) {
		if len(source) > 1<<10 || limit < 100 || limit > MaxText {
			return
		}
		source = Clean(source)
		checkLimits(t, source, limit)
		checkParts(t, Render(source), limit)
	})
}
