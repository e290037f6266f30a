package dialect

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// z is joint, where it can be seen.
const z = joint

func TestRender(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain text":              {"Hello, *world", "Hello, *world"},
		"formats":                 {"**b** *i* __b__ _i_ ~~s~~ `c  d`", "*b* _i_ *b* _i_ ~s~ `c  d`"},
		"nested formats":          {"**b *i* b** ***x***", "*b _i_ b* _*x*_"},
		"the same twice":          {"**a **b** c**", "*a b c*"},
		"formats within words":    {"a**b**c *d*e", "a" + z + "*b*" + z + "c _d_" + z + "e"},
		"formats side by side":    {"**a***b*", "*a*" + z + "_b_"},
		"a format over two lines": {"**a\nb** c", "*a*\n*b* c"},
		"two code spans":          {"`a` `b`", "`a` `b`"},
		"punctuation beside":      {"(**a**), \"*b*\"!", "(*a*), \"_b_\"!"},
		"code in bold":            {"**use `x` now**", "*use `x` now*"},
		"a backtick in code":      {"a ``b`c`` d", "a b`c d"},
		"blank code":              {"a ` ` b", "a   b"},
		"mentions are inert":      {"<@U123> <!channel> <#C1|x> <!subteam^S1> @here", "&lt;@U123&gt; &lt;!channel&gt; &lt;#C1|x&gt; &lt;!subteam^S1&gt; @here"},
		"mentions in code":        {"`<@U1>`\n\n```\n<!here> & co\n```", "`&lt;@U1&gt;`\n\n```\n&lt;!here&gt; &amp; co\n```"},
		"a mention as a link":     {"[x](<!channel>) [y](@U1) <https://e.org/<@U1>", "x (!channel) y (@U1) &lt;https://e.org/&lt;@U1&gt;"},
		"a mention in a link":     {"[<!here>](https://e.org/a|b)", "<https://e.org/a%7Cb|&lt;!here&gt;>"},
		"escapes":                 {`\*a\* \_b\_ 1\. snake_case_name`, "*" + z + "a* _" + z + "b_ 1. snake_case_name"},
		"no formats":              {"2 * 3 * 4, ~10 to ~20, *args", "2 * 3 * 4, ~10 to ~20, *args"},
		"character references":    {"&lt;@U1&gt; &copy; &amp;lt; & <b>", "&lt;@U1&gt; © &amp;lt; &amp; &lt;b&gt;"},
		"link":                    {`see [the *docs*](https://e.org/a_(b)?c=d&e "T").`, "see <https://e.org/a_(b)?c=d&amp;e|the docs>."},
		"bold link":               {"**[x](https://e.org) y**", "*<https://e.org|x> y*"},
		"bare links":              {"https://e.org/_a_b <https://e.org> www.e.org a@e.org", "<https://e.org/_a_b> <https://e.org> <http://www.e.org|www.e.org> <mailto:a@e.org|a@e.org>"},
		"mail link":               {"[write](mailto:a@e.org)", "<mailto:a@e.org|write>"},
		"relative link":           {"[the `file`](./docs/a.md)!", "the file (./docs/a.md)!"},
		"script link":             {"[x](javascript:alert(1))", "x (javascript:alert(1))"},
		"link without label":      {"a [](https://e.org) b", "a <https://e.org> b"},
		"link to nowhere":         {"[x]()", "x"},
		"image":                   {"![a *cat*](https://e.org/c.png)", "<https://e.org/c.png|a cat>"},
		"image in a link":         {"[![cat](https://e.org/c.png)](https://e.org) x", "<https://e.org|cat (https://e.org/c.png)> x"},
		"reference link":          {"see [docs][1]\n\n[1]: https://e.org \"T\"", "see <https://e.org|docs>"},
		"unused reference":        {"see\n\n[1]: <!here> \"<@U1>\"", "see\n\n[1]: !here \"&lt;@U1&gt;\""},
		"headings":                {"# a `b` **c**\n## d ##\ntext\n\nUnder\n===", "*a `b` c*\n*d*\ntext\n\n*Under*"},
		"line breaks":             {"one\ntwo  \nthree\\\nfour\n\nfive", "one\ntwo\nthree\nfour\n\nfive"},
		"rule":                    {"a\n\n---\n\nb", "a\n\n———\n\nb"},
		"bullets":                 {"* a\n+ b\n    - c\n      more", "• a\n• b\n  • c\n    more"},
		"numbers":                 {"3. a\n4. b\n\n   more\n5) c", "3. a\n4. b\n\n   more\n5) c"},
		"tasks":                   {"- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"},
		"quotation":               {">a\n>\n> **b**\nlazy\n\nc", "> a\n> \n> *b*\n> lazy\n\nc"},
		"quotation in another":    {"> a\n> > b\n> > c", "> a\n> &gt; b\n> &gt; c"},
		"quotation in a list":     {"- > a\n  > b", "• &gt; a\n  &gt; b"},
		"no quotation":            {"\\> a\n2 > 1", z + "&gt; a\n2 &gt; 1"},
		"code block":              {"a\n```go\n  x := 1\n\n  y\n```\nb", "a\n```\n  x := 1\n\n  y\n```\nb"},
		"code block in a list":    {"- a\n\n  ```sh\n  ls\n    -l\n  ```\n- b", "• a\n\n```\nls\n  -l\n```\n• b"},
		"fences in code":          {"````\n```\nx\n````", "```\n``" + z + "`\nx\n```"},
		"a stray fence":           {"use ``` to begin", "use ``" + z + "` to begin"},
		"html":                    {"<b>x</b>\n\n<div>\n*y*\n</div>", "&lt;b&gt;x&lt;/b&gt;\n\n&lt;div&gt;\n*" + z + "y*\n&lt;/div&gt;"},
		"only markup":             {"```\n```", "``" + z + "`\n``" + z + "`"},
		"a stream's cursor":       {"**a** b ▉", "*a* b ▉"},
		"table":                   {"|a|b|\n|-|-|\n|`<`|2|", "```\na | b\n--+--\n&lt; | 2\n```"},
		"broken utf-8":            {"a\xffb **c**", "a\uFFFDb *c*"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Render(Clean(tc.in))); diff != "" {
				t.Errorf("rendered (-want +got):\n%s", diff)
			}
		})
	}
}

var (
	legalLink   = regexp.MustCompile(`<(?i:https?://|mailto:)[^<>|\s]+(\|[^<>\n]+)?>`)
	legalEntity = regexp.MustCompile(`&(amp|lt|gt);`)
	legalQuote  = regexp.MustCompile(`(?m)^>( |$)`)
)

// checkInert fails the test unless nothing in s could address anybody.
func checkInert(t platformtest.Failer, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is no valid UTF-8", s)
	}
	rest := legalQuote.ReplaceAllString(legalEntity.ReplaceAllString(legalLink.ReplaceAllString(s, ""), ""), "")
	if i := strings.IndexAny(rest, "<>&"); i >= 0 {
		t.Fatalf("%.60q… in %q is markup of Slack's", rest[i:], s)
	}
}

// checkConserved fails the test if a letter of source is lost. Markup that has letters of its own is left out of account.
func checkConserved(t platformtest.Failer, source, out string) {
	t.Helper()
	for _, own := range []string{"&", "[x]", "[X]", "]:", "][", "](", "\"", "'", "```", "~~~", "%"} {
		if strings.Contains(source, own) {
			return
		}
	}
	bare := strings.NewReplacer("&lt;", "", "&gt;", "", "%3C", "", "%3E", "").Replace(out)
	platformtest.CheckLetters(t, source, out, platformtest.Letters(bare))
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"**a *b* `c`** ~~d~~", "> a\n> > b\n\n- c\n  1. d\n     ```go\n     e\n     ```", "|a|b|\n|-|:-|\n|1|`2\\|`|3|",
		"[a][1] ![b](https://e.org) <c@d.e>\n\n[1]: <https://e.org> \"<@U1>\"", "# a\n===\n\n---\n<b>\n</b>", "```a b\n", "&amp;\\*&#0;",
		"- [ ] a\n- [x] b\n\n\tc", "<!channel> <@U1|x>", "\x00\xff\u2028😀\u200d", "[a](<https://e.org/<@U1>)", "[&lt;!here&gt;](mailto:<!here>)",
		"<https://e.org/&lt;@U1&gt;>", "www.e.org/<!here>", "\\&lt;", "[x]: <@U1>", "****a****", "a``` b```", "> ```\n> <!here>\n> ```",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1<<10 {
			return
		}
		source = Clean(source)
		out := Render(source)
		checkInert(t, out)
		checkConserved(t, source, out)
		if n := utf8.RuneCountInString(out); n > 0 { // long enough to be cut
			checkParts(t, Render(strings.Repeat(source, MaxSection/n+2)), MaxSection)
		}
	})
}

// checkParts fails the test unless the parts of out are legal messages that say all of it.
func checkParts(t platformtest.Failer, out string, limit int) {
	t.Helper()
	bare := strings.NewReplacer(fence, "", " ", "", "\n", "", "\t", "", ">", "")
	said := 0
	for _, part := range Split(out, limit) {
		if n := utf8.RuneCountInString(part); n > limit {
			t.Fatalf("a part has %d characters, at most %d fit", n, limit)
		}
		checkInert(t, part)
		fences := 0
		for line := range strings.SplitSeq(part, "\n") {
			if line == fence {
				fences++
			}
		}
		if fences%2 != 0 {
			t.Fatalf("a part has %d fences: %q", fences, part)
		}
		for _, n := range platformtest.Letters(bare.Replace(part)) {
			said += n
		}
	}
	all := 0
	for _, n := range platformtest.Letters(bare.Replace(out)) {
		all += n
	}
	if said != all {
		t.Fatalf("the parts have %d letters, %q has %d", said, out, all)
	}
}

// TestWordsSurviveRendering looks for the words of documents, in order.
func TestWordsSurviveRendering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, n := platformtest.Document(t)
		out := Render(source)
		platformtest.CheckWords(t, source, n, out)
		checkInert(t, out)
	})
}

func TestInPiecesAsAtOnce(t *testing.T) {
	platformtest.Pieces{Parser: form.Parser, Clean: Clean, Diff: func(source string, b markdown.Bounds) string {
		return cmp.Diff(Render(source), renderWithin(source, b))
	}}.Test(t)
}

func TestSplit(t *testing.T) {
	platformtest.Cuts(t, func(_ *testing.T, source string) []string { return Split(source, 20) })
	long := strings.Repeat("x", 50)
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  []string
	}{
		"short":             {"a b", 10, []string{"a b"}},
		"words":             {"aaaa bbbb cccc", 10, []string{"aaaa bbbb", "cccc"}},
		"a code block":      {"```\n" + long + "\n" + long + "\n```", 70, []string{"```\n" + long + "\n```", "```\n" + long + "\n```"}},
		"a quotation":       {"> aaaa bbbb cccc dddd", 12, []string{"> aaaa bbbb", "> cccc dddd"}},
		"a link stays":      {"aaaaaaaaaa <http://e.org|b c>", 40, []string{"aaaaaaaaaa <http://e.org|b c>"}},
		"no cut in a link":  {"aaaaaaaaaaaaaaaaaaaaaaaa <http://e.org|b c>", 36, []string{"aaaaaaaaaaaaaaaaaaaaaaaa", "<http://e.org|b c>"}},
		"no cut in a label": {"aaaaaaaaaaaaaaaaaaaaa <http://e.g|b c> d", 36, []string{"aaaaaaaaaaaaaaaaaaaaa", "<http://e.g|b c> d"}},
		"an entity stays":   {"aaaaaaaa&amp;b", 10, []string{"aaaaaaaa", "&amp;b"}},
		"nothing":           {" \n" + joint, 10, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Split(tc.in, tc.limit)); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLongAnswers has everything that models write, more than fits into one piece of the parser.
func TestLongAnswers(t *testing.T) {
	for _, size := range []int{23 << 10, 120 << 10} {
		source := platformtest.Answer(size)
		out := Render(Clean(source))
		checkInert(t, out)
		checkParts(t, out, MaxText)
		for _, bare := range []string{"**short", "**late", "](http", "&mdash;", "\n# ", "[ ] ", "[book]"} {
			if strings.Contains(out, bare) {
				t.Errorf("%d bytes leave a bare %q", len(source), bare)
			}
		}
	}
	for _, words := range []int{100, 800} { // the second is too long for a link
		link := "[" + strings.Repeat("word ", words) + "](https://example.org/) "
		checkParts(t, Render(strings.Repeat(link, 10)), MaxSection)
	}
	monster := strings.Repeat("![a](b) \n", markdown.MaxMarkup)
	if out := Render(monster + "\n<!here>"); !strings.Contains(out, "&lt;!here&gt;") {
		t.Error("what is too much for the parser is not escaped behind it")
	}
}
