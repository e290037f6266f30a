package platformtest

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark/parser"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// Checks that the tests of every dialect of markdown use.

// Failer is a test, of package testing or rapid.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

//go:embed answer.md
var section string

// Answer returns an answer of at least size bytes, with everything that models write and with definitions of references
// at its very end.
func Answer(size int) string {
	return strings.Repeat(section, size/len(section)+1) +
		"[book]: https://parcels.example.org/book\n[sort]: https://parcels.example.org/sort 'sorting'\n"
}

// Letters returns the letters of s, each with how often it occurs.
func Letters(s string) map[rune]int {
	out := make(map[rune]int)
	for _, c := range s {
		if unicode.IsLetter(c) {
			out[c]++
		}
	}
	return out
}

// CheckLetters fails the test if a letter of source is missing in out; got counts the letters of out.
func CheckLetters(t Failer, source string, out any, got map[rune]int) {
	t.Helper()
	for c, n := range Letters(source) {
		if got[c] < n {
			t.Fatalf("%d of %d %q are lost from %q: %q", n-got[c], n, c, source, out)
		}
	}
}

// Document returns random markdown of n words, "word1x" to "wordnx" in order, in constructs of every kind.
func Document(t *rapid.T) (source string, n int) {
	word := func() string { n++; return fmt.Sprintf("word%dx", n) }
	var inline, block func(depth int) string
	inline = func(depth int) string {
		kind := rapid.IntRange(0, 11).Draw(t, "inline")
		if depth == 0 {
			kind = 0
		}
		in := func() string { return inline(depth - 1) }
		switch kind {
		case 1:
			return "**" + in() + "**"
		case 2:
			return "*" + in() + "*"
		case 3:
			return "~~" + word() + "~~" // not nested: four tildes open a code block
		case 4:
			return "`" + word() + "`"
		case 5:
			return "[" + word() + "](https://e.org/)"
		case 6:
			return "![" + word() + "](https://e.org/)"
		case 7:
			return "<i>" + in() + "</i>"
		case 8:
			return in() + "\n" + in()
		case 9:
			return "[" + word() + " ![" + word() + "](p.png)](https://e.org/)"
		case 10:
			return in() + " " + in()
		case 11:
			return "||" + in() + "||"
		}
		return word()
	}
	indent := func(s, first, rest string) string {
		return first + strings.ReplaceAll(s, "\n", "\n"+rest)
	}
	block = func(depth int) string {
		kind := rapid.IntRange(0, 9).Draw(t, "block")
		if depth == 0 {
			kind = 0
		}
		switch kind {
		case 1:
			return strings.Repeat("#", rapid.IntRange(1, 6).Draw(t, "level")) + " " + strings.ReplaceAll(inline(2), "\n", " ")
		case 2:
			return indent(block(depth-1), "- ", "  ") + "\n" + indent(block(depth-1), "- ", "  ")
		case 3:
			return indent(block(depth-1), "1. ", "   ")
		case 4:
			return indent(block(depth-1), "1. ", "   ") + "\n\n" + indent(block(depth-1), "   ", "   ")
		case 5:
			return indent(block(depth-1), "> ", "> ")
		case 6:
			return "```" + rapid.SampledFrom([]string{"", "go", "two words"}).Draw(t, "info") + "\n" + word() + "\n  " + word() + "\n```"
		case 7:
			return "| " + word() + " | " + word() + " |\n|---|:-:|\n| " + word() + " | **" + word() + "** |"
		case 8:
			return block(depth-1) + "\n\n" + block(depth-1)
		case 9:
			return "<div>\n" + word() + "\n</div>"
		}
		return inline(3)
	}
	return block(3), n
}

// CheckWords fails the test unless out has the n words of a Document, in order.
func CheckWords(t Failer, source string, n int, out string) {
	t.Helper()
	rest := out
	for i := 1; i <= n; i++ {
		w := fmt.Sprintf("word%dx", i)
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("%s is missing or out of order in %q, from %q", w, out, source)
		}
		rest = after
	}
}

// Seeds adds the texts with which a fuzzer of a dialect begins.
func Seeds(f *testing.F) {
	for _, s := range []string{
		"**a *b* `c`** ~~d~~ ||e||", "> a\n> > b\n\n- c\n  1. d\n     ```go\n     e\n     ```", "|a|b|\n|-|:-|\n|1|`2\\|`|3|",
		"[a][1] ![b](https://e.org) <c@d.e>\n\n[1]: <https://e.org> \"t\"", "# a\n===\n\n---\n<b>\n</b>", "```a b\n", "&amp;\\*&#0;",
		"- [ ] a\n- [x] b\n\n\tc", "||a **b|| c**", "\x00\xff\u2028😀\u200d", "> ```\n>  \n>  a", "*\u00a0a\u00a0*", "[&#32;](https://e.org)",
	} {
		f.Add(s)
	}
}

// Cuts checks how a dialect cuts plain text into parts of at most 20 characters.
func Cuts(t *testing.T, split func(t *testing.T, source string) []string) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":                    {"", nil},
		"blanks":                     {" \n \n", nil},
		"exactly the limit":          {"aaaa bbbb cccc dddd ", []string{"aaaa bbbb cccc dddd"}},
		"between words":              {"aaaa bbbb cccc dddd eeee", []string{"aaaa bbbb cccc dddd", "eeee"}},
		"at the limit":               {"aaaa bbbb cccc dddde ffff", []string{"aaaa bbbb cccc dddde", "ffff"}},
		"lines before words":         {"aaaa bbbb cc\ndd eeee ffff gggg", []string{"aaaa bbbb cc", "dd eeee ffff gggg"}},
		"paragraphs before lines":    {"aaaa bbbb ccc\n\ndd\nee ffff gggg", []string{"aaaa bbbb ccc", "dd\nee ffff gggg"}},
		"no very short part":         {"aa\n\nbbbb cccc dddd eeee ffff", []string{"aa\n\nbbbb cccc dddd", "eeee ffff"}},
		"a word too long":            {strings.Repeat("x", 45), []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		"no letter loses its accent": {strings.Repeat("x", 19) + "e\u0301\u0301xx", []string{strings.Repeat("x", 19), "e\u0301\u0301xx"}},
		"no family is parted":        {"xxxxxxxxxxxxxx👩\u200d👩\u200d👧\u200d👦", []string{"xxxxxxxxxxxxxx", "👩\u200d👩\u200d👧\u200d👦"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := split(t, tc.in); !slices.Equal(got, tc.want) {
				t.Errorf("parts are %q, want %q", got, tc.want)
			}
		})
	}
}

// lines are beginnings, ends and middles of blocks, of which Pieces.Test makes its texts.
var lines = []string{
	"", "", "", "a", "b c", "- a", "-", "* b", "+ c", "1. a", "2. b", "7) c", "  a", "   b", "    c", "\ta", "  - a", "    - b", "   1. c",
	"> a", ">", "> - a", "> > b", ">- c", "```", "```go", "~~~", "  ```", "> ```", "- ```", "# a", "## b", "---", "***", "===", "- - -", "--", "* * *",
	"|a|b|", "|-|-|", "|-|", "|1|2|", "a|b", "-|-", "<div>", "</div>", "<!-- a", "a -->", "<!-- b -->", "<pre>", "</pre>", "<x>", "<?a", "?>",
	"[a]: /b", "[a]: https://e.org", "[b]: https://e.org 'c", "c'", "'c'", "[b]: <https://e.org>", "[a] [b] [c][a]", "![a][b]", "**a", "b** *c*", "a\\", "a  ", "[c]:", "- [x] a", "- [a]: https://e.org", "> [c]: https://e.org",
}

// Pieces tests a dialect that renders long texts piece by piece.
type Pieces struct {
	Parser parser.Parser
	Clean  func(source string) string // makes any string one that the dialect can parse and send
	// Diff renders source within b and at once, and returns how the two differ; empty: they do not.
	Diff func(source string, b markdown.Bounds) string
}

// tightest returns tight bounds within which no block of source is left unparsed. It tries weight (a number of lines,
// marks and cells) and then larger numbers, in growing steps. If none below the default is enough, it returns the zero
// value, which means the default bounds.
func (p Pieces) tightest(source string, weight int) markdown.Bounds {
	for weight < markdown.MaxMarkup {
		b := markdown.Bounds{Markup: weight}
		raw := false
		for block := range markdown.Read(source, p.Parser, b).Blocks() {
			raw = raw || block.Node == nil
		}
		if !raw {
			return b
		}
		weight += 1 + weight/4
	}
	return markdown.Bounds{}
}

// check fails the test if source rendered in pieces, of at least weight, differs from source rendered at once.
func (p Pieces) check(t Failer, source string, weight int) {
	t.Helper()
	b := p.tightest(source, weight)
	if diff := p.Diff(source, b); diff != "" {
		t.Fatalf("%q in pieces of %d (-at once +in pieces):\n%s", source, b.Markup, diff)
	}
}

// Test fails unless texts come out piece by piece as they do at once.
func (p Pieces) Test(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, 25).Draw(t, "lines"), "\n")
		p.check(t, source, rapid.IntRange(1, 30).Draw(t, "weight"))
	})
}

// Fuzz is Test with any texts.
func (p Pieces) Fuzz(f *testing.F) {
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
		p.check(t, p.Clean(source), weight)
	})
}
