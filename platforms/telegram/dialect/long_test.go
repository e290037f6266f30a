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
		"|a|\n|-|\n---\nb":            "a\n-\n———\nb",
		"a\n|b|\n|-|\n|c|\n---\nd":    "a\nb\n-\nc\n———\nd",
		"> a\n> |b|\n> |-|\n> ---\nd": "a\nb\n-\n———\nd",
		"- a\n  |b|\n  |-|\n  ---\nd": "• a\nb\n-\n  ———\nd",
		"x\n\na\n|b|\n|-|\ntext":      "x\n\na\nb\n----\ntext",
		"> ```\n> a\n> ```\n>\n> b":   "a\n\nb",
		"> > a\n> > |b|\n> > |-|\nc":  "> a\nb\n-\nc",
	} {
		if diff := cmp.Diff(want, Render(in).text); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// TestTheMonstrousIsNoNeighboursLoss has blocks that are not fit to be parsed between others.
func TestTheMonstrousIsNoNeighboursLoss(t *testing.T) {
	monster := strings.Repeat("![a](b) \n", markdown.MaxMarkup)
	for in, want := range map[string]string{
		"**a**\n\n" + monster + "\n# b":                                         "a\n\n" + strings.TrimRight(monster, "\n") + "\n\nb",
		"1. *a*\n2. " + strings.ReplaceAll(monster, "\n", "\n   ") + "\n3. *b*": "1. a\n2. " + strings.TrimSuffix(strings.ReplaceAll(monster, "\n", "\n   "), "\n   ") + "\n\n3. b",
	} {
		if got := Render(in).text; got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%.20q…: from byte %d on %.40q, want %.40q", in, at, got[at:], want[at:])
		}
	}
}

// TestLongAnswersAreRendered looks for markup that people would see.
func TestLongAnswersAreRendered(t *testing.T) {
	bare := regexp.MustCompile("(?m)\\*\\*|__|~~|```|^ *#{1,6} |^[ >]*[-*+] |^\\||\\]\\[|\\]\\(|\\]:|^---|^\\*\\*\\*|\\[[ x]\\] ")
	for _, size := range []int{23 << 10, 44 << 10, 120 << 10} {
		source := platformtest.Answer(size)
		r := Render(source)
		units := Encode(r.text)
		for _, e := range r.entities { // in code, nothing is markup
			if e.verbatim() {
				for i := e.Offset; i < e.end(); i++ {
					units[i] = 'x'
				}
			}
		}
		if found := bare.FindAllString(Decode(units), -1); found != nil {
			t.Errorf("%d bytes leave %d bare markers: %q", len(source), len(found), found[:min(len(found), 10)])
		}
		for _, p := range Split(r, MaxText) {
			checkLegal(t, p.Text, p.Entities)
		}
	}
}
