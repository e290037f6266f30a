package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// tightest are the tightest bounds, from weight on, within which all of source can be parsed, if it can be.
func tightest(source string, weight int) markdown.Bounds {
	for weight < markdown.MaxMarkup {
		b := markdown.Bounds{Markup: weight}
		raw := false
		for block := range markdown.Read(source, form.Parser, b).Blocks() {
			raw = raw || block.Node == nil
		}
		if !raw {
			return b
		}
		weight += 1 + weight/4
	}
	return markdown.Bounds{}
}

// checkPieces fails the test unless source comes out piece by piece as it does at once.
func checkPieces(t failer, source string, weight int) {
	t.Helper()
	b := tightest(source, weight)
	if diff := cmp.Diff(Render(source), renderWithin(source, b)); diff != "" {
		t.Fatalf("%q in pieces of %d (-at once +in pieces):\n%s", source, b.Markup, diff)
	}
}

// lines are beginnings, ends and middles of blocks.
var lines = []string{
	"", "", "", "a", "b c", "- a", "-", "* b", "+ c", "1. a", "2. b", "7) c", "  a", "   b", "    c", "\ta", "  - a", "    - b", "   1. c",
	"> a", ">", "> - a", "> > b", ">- c", "```", "```go", "~~~", "  ```", "> ```", "- ```", "# a", "## b", "---", "***", "===", "- - -", "--", "* * *",
	"|a|b|", "|-|-|", "|-|", "|1|2|", "a|b", "-|-", "<div>", "</div>", "<!-- a", "a -->", "<!-- b -->", "<pre>", "</pre>", "<x>", "<?a", "?>",
	"[a]: /b", "[a]: https://e.org", "[b]: https://e.org 'c", "c'", "'c'", "[b]: <https://e.org>", "[a] [b] [c][a]", "![a][b]", "**a", "b** *c*", "a\\", "a  ", "[c]:", "- [x] a", "- [a]: https://e.org", "> [c]: https://e.org",
}

func TestInPiecesAsAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, 25).Draw(t, "lines"), "\n")
		checkPieces(t, source, rapid.IntRange(1, 30).Draw(t, "weight"))
	})
}

func FuzzPieces(f *testing.F) {
	f.Add(strings.Join(lines, "\n"), 10)
	f.Add(strings.Join(lines, "\n\n"), 5)
	f.Add("|\n-:", 10)
	f.Add("a\n\n\f  \n\x81", 1)
	f.Add("a\n|\n|-|\n[a]: b\n|\n|-|", 1)
	f.Add("1. a\n2. b\n\n   c\n10. d\n- e\n  - f\n  g\n\nh", 1)
	f.Fuzz(func(t *testing.T, source string, weight int) {
		if len(source) > 1<<10 || weight < 1 || weight > 1<<10 {
			return
		}
		checkPieces(t, Clean(source), weight)
	})
}
