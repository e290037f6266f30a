package dialect

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// TestTextTableRule has a rule right beneath a table: what was written first comes first.
func TestTextTableRule(t *testing.T) {
	for in, want := range map[string]string{
		"|a|\n|-|\n---\nb":            "```\na\n-\n```\n———\nb",
		"a\n|b|\n|-|\n|c|\n---\nd":    "a\n```\nb\n-\nc\n```\n———\nd",
		"> a\n> |b|\n> |-|\n> ---\nd": "> a\n> ```\n> b\n> -\n> ```\n> ———\nd",
		"- a\n  |b|\n  |-|\n  ---\nd": "- a\n```\nb\n-\n```\n  ———\nd",
		"x\n\na\n|b|\n|-|\ntext":      "x\n\na\n```\nb\n----\ntext\n```",
		"> ```\n> a\n> ```\n>\n> b":   "> ```\n> a\n> ```\n> \n> b",
		"> > a\n> > |b|\n> > |-|\nc":  "> > a\n> ```\n> b\n> -\n> c\n> ```",
	} {
		if diff := cmp.Diff(want, Render(in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// TestTheMonstrousIsNoNeighboursLoss has blocks that are not fit to be parsed between others.
func TestTheMonstrousIsNoNeighboursLoss(t *testing.T) {
	monster := strings.Repeat("![a](b) \n", markdown.MaxMarkup)
	for in, want := range map[string]string{
		"![a](b)\n\n" + monster + "\n#### b":                                         "a (b)\n\n" + strings.TrimRight(monster, "\n") + "\n\n**b**",
		"a\n\n> ```\n" + strings.Repeat("> *a*\n", markdown.MaxMarkup) + "\n![a](b)": "a\n\n> \\`\\`\\`\n" + strings.Repeat("> *a*\n", markdown.MaxMarkup) + "\na (b)",
	} {
		if got := Render(in); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%.20q…: from byte %d on %.40q, want %.40q", in, at, got[at:], want[at:])
		}
	}
}

// TestLongAnswersAreRendered looks for markup that Discord does not know.
func TestLongAnswersAreRendered(t *testing.T) {
	code := regexp.MustCompile("(?ms)^(> )?```.*?^(> )?```$|`[^`\n]*`")
	bare := regexp.MustCompile(`(?m)~~~|^ *#{4,} |^[*+] |^ *\||!\[|\]\[|\]:|^---|^\*\*\*|\[[ x]\] |&mdash;|\]\(docs`)
	for _, size := range []int{23 << 10, 44 << 10, 120 << 10} {
		source := platformtest.Answer(size)
		out := Render(source)
		checkFences(t, out)
		if found := bare.FindAllString(code.ReplaceAllString(out, "x"), -1); found != nil {
			t.Errorf("%d bytes leave %d bare markers: %q", len(source), len(found), found[:min(len(found), 10)])
		}
		for _, p := range Split(out, MaxText) {
			checkFences(t, p)
		}
	}
}
