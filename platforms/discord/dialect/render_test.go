package dialect

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

func TestRender(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain text":                    {"Hello, *world", "Hello, *world"},
		"formats stay":                  {"**b** *i* __u__ _i_ ~~s~~ ||psst|| `c  d`", "**b** *i* __u__ _i_ ~~s~~ ||psst|| `c  d`"},
		"Discord's own markup stays":    {"<@123> <#4> <@&5> <t:1:R> <:smile:6> @everyone\n-# small", "<@123> <#4> <@&5> <t:1:R> <:smile:6> @everyone\n-# small"},
		"escapes stay":                  {`\*a\* 1\. \_`, `\*a\* 1\. \_`},
		"or is no spoiler":              {"a || b || c", `a \|\| b \|\| c`},
		"link":                          {`see [the *docs*](https://e.org/a_(b) "T").`, `see [the *docs*](https://e.org/a_(b) "T").`},
		"quiet link":                    {"[x](<https://e.org>) <https://e.org/_x_>", "[x](<https://e.org>) <https://e.org/_x_>"},
		"relative link":                 {"[the `file`](./docs/a.md)!", "the `file` (./docs/a.md)!"},
		"script link":                   {"[x](javascript:alert(1))", "x (javascript:alert(1))"},
		"mail link":                     {"[write](mailto:a@e.org) [a@e.org](mailto:a@e.org)", "write (a@e.org) a@e.org"},
		"link without label":            {"a [](https://e.org) b", "a https://e.org b"},
		"link to nowhere":               {"[x]()", "x"},
		"image":                         {"![a *cat*](https://e.org/c.png)", "[a *cat*](https://e.org/c.png)"},
		"image without words":           {"![](https://e.org/c.png)", "https://e.org/c.png"},
		"image of no address":           {"![a cat](data:image/png;base64,AA)", "a cat (data:image/png;base64,AA)"},
		"image in a link":               {"[![cat](https://e.org/c.png)](https://e.org) x", "[cat](https://e.org) (<https://e.org/c.png>) x"},
		"image without words in a link": {"[see ![](https://e.org/c.png)](https://e.org)", "[see ](https://e.org) (<https://e.org/c.png>)"},
		"badge without words":           {"[![](https://e.org/c.png)](https://e.org)", "https://e.org (<https://e.org/c.png>)"},
		"reference links": {
			"see [docs][1], [short] and ![pic][1]\n\n[1]: https://e.org/a_(b) \"T\"\n[short]: <https://s.org>",
			"see [docs](https://e.org/a_%28b%29 \"T\"), [short](https://s.org) and [pic](https://e.org/a_%28b%29 \"T\")",
		},
		"a link over two lines":   {"[a\nb](https://e.org)\nc", "[a\nb](https://e.org)\nc"},
		"unused reference":        {"see\n\n[1]: https://e.org", "see\n\n[1]: https://e.org"},
		"headings":                {"# a `b` *c*\n## d ##\n### e\ntext\n\nUnder\n===\nline\ntwo\n---", "# a `b` *c*\n## d\n### e\ntext\n\n# Under\n## line two"},
		"deep headings":           {"#### a *b* c\n##### **all bold**\n###### d **e** f\n#### *g* **h_i**\n####", "**a *b* c**\n**all bold**\n__d **e** f__\n*g* **h_i**\n####"},
		"line breaks":             {"one\ntwo  \nthree\\\nfour\n\nfive", "one\ntwo  \nthree\nfour\n\nfive"},
		"windows line ends":       {"one\r\n\r\ntwo", "one\n\ntwo"},
		"rule":                    {"a\n\n---\n\nb\n\n***", "a\n\n———\n\nb\n\n———"},
		"bullets":                 {"* a\n+ b\n    - c\n      more\n\n- d", "- a\n- b\n  - c\n    more\n\n- d"},
		"numbers":                 {"3. a\n3. b\n\n   more\n5) c", "3. a\n4. b\n\n   more\n5. c"},
		"tasks":                   {"- [x] done\n- [ ] open", "- ☑ done\n- ☐ open"},
		"quotation":               {">a\n>\n> **b**\nlazy\n\nc", "> a\n> \n> **b**\n> lazy\n\nc"},
		"quotation in another":    {"> a\n> > b\n> > c", "> a\n> > b\n> > c"},
		"three marks":             {">>> a\n\nb", "> > > a\n\nb"},
		"list in a quotation":     {"> - a\n>   - b", "> - a\n>   - b"},
		"code block":              {"a\n```go\n  x := 1\n\n  y\n```\nb", "a\n```go\n  x := 1\n\n  y\n```\nb"},
		"other fences":            {"~~~py\nx\n~~~\n\n````md\n```go\ny\n```\n````", "```py\nx\n```\n\n```md\n``\u200b`go\ny\n``\u200b`\n```"},
		"code block in a list":    {"- a\n\n  ```sh\n  ls\n    -l\n  ```\n- b", "- a\n\n```sh\nls\n  -l\n```\n- b"},
		"code block first in one": {"1. ```\n   x\n   ```", "1. \n```\nx\n```"},
		"code block in a quotation": {
			"> ```\n>   x\n>\n> y\n> ```\n> z", "> ```\n>   x\n> \n> y\n> ```\n> z",
		},
		"indented code":         {"a\n\n    x = *y*\n\tz\n", "a\n\n```\nx = *y*\nz\n```"},
		"open code block":       {"```py\nprint() ▉", "```py\nprint() ▉\n```"},
		"code block with words": {"```two words\nx\n```", "```\ntwo words\nx\n```"},
		"text for a language":   {"```hello", "```\nhello\n```"},
		"a stray fence":         {"use ``` to begin\n\n```\nx\n```", "use \\`\\`\\` to begin\n\n```\nx\n```"},
		"a fence in a line":     {"```x``` y", "```x``` y"},
		"html":                  {"<b>x</b> &amp; <br>", `<b>x</b> \& <br>`},
		"html block":            {"<div>\n**x** ```\n</div>", "<div>\n**x** \\`\\`\\`\n</div>"},
		"html comment":          {"<!-- note\nto self --> x", "<!-- note\nto self --> x"},
		"character references":  {`&lt;@1&gt; &copy; &#42;a&#x2A; &nope; \&amp; ` + "`&lt;`", `\<@1\> © \*a\* &nope; \&amp; ` + "`&lt;`"},
		"only markup":           {"```\n```", "```\n```"},
		"unfinished":            {"**a `b [c](d", "**a `b [c](d"},
		"a stream's cursor":     {"**a** b ▉", "**a** b ▉"},
		"broken utf-8":          {"a\xffb **c**", "a\uFFFDb **c**"},
		"table": {
			"a:\n\n| Name | n |\n|:--|--:|\n| **x** | 1 |\n| `long` [l](https://e.org) | 22 |\n\nb",
			"a:\n\n```\nName                   |  n\n-----------------------+---\nx                      |  1\nlong l (https://e.org) | 22\n```\n\nb",
		},
		"table in a quotation":         {"> |a|b|\n> |-|-|\n> |1|2|", "> ```\n> a | b\n> --+--\n> 1 | 2\n> ```"},
		"wide characters in a table":   {"|日本|b|\n|-|:-:|\n|a|xyz|", "```\n日本 |  b\n-----+----\na    | xyz\n```"},
		"cells beyond the last column": {"|a|\n|-|\n|1|2|3|", "```\na\n--+----\n1 | 2|3\n```"},
		"everything in a table": {
			"|a|\n|-|\n|\\*x\\* &amp; <b>y</b> ~~z~~ <https://e.org>|\n|![pic](https://p.org) [](https://q.org) [m](mailto:m) [a\\&amp;](b&amp;c\\))|",
			"```\na\n-------------------------------------------------\n*x* & <b>y</b> z https://e.org\npic (https://p.org) https://q.org m a&amp; (b&c))\n```",
		},
		"fences in a table": {"|a|\n|-|\n|```` ` ````|", "```\na\n-\n`\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Render(Clean(tc.in))); diff != "" {
				t.Errorf("rendered (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHugeOrDeepMarkdownGoesPlain(t *testing.T) {
	for name, in := range map[string]string{
		"huge": strings.Repeat("![a](b) ", markdown.MaxSource),
		"deep": strings.Repeat("> ", markdown.MaxNesting+1) + "![a](b)",
	} {
		t.Run(name, func(t *testing.T) {
			if Render(in) != in {
				t.Error("was parsed")
			}
		})
	}
}

// checkConserved fails the test if a letter of markdown is lost. Markup that has letters of its own
// is left out of account.
func checkConserved(t platformtest.Failer, markdown, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Fatalf("%q is not valid UTF-8", out)
	}
	for _, own := range []string{"&", "[x]", "[X]", "]:", "][", "mailto:", "\"", "'"} {
		if strings.Contains(markdown, own) {
			return
		}
	}
	got := platformtest.Letters(out)
	for c, n := range saidTwice(markdown) {
		got[c] += n
	}
	platformtest.CheckLetters(t, markdown, out, got)
}

// saidTwice counts the letters of addresses that stand as their own link's label too: once is
// enough for people.
func saidTwice(markdown string) map[rune]int {
	out := make(map[rune]int)
	src := []byte(markdown + "\n")
	ast.Walk(form.Parser.Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var destination []byte
		open := 1
		switch n := n.(type) {
		case *ast.Link:
			destination = n.Destination
		case *ast.Image:
			destination, open = n.Destination, 2
		}
		label, _ := placeOfLink(n)
		if _, address := addressOf(destination); entering && destination != nil && address == string(src[n.Pos()+open:label]) {
			for c, times := range platformtest.Letters(address) {
				out[c] += times
			}
		}
		return ast.WalkContinue, nil
	})
	return out
}

// checkFences fails the test unless every line that Discord could take for the beginning of a code
// block has its end.
func checkFences(t platformtest.Failer, out string) {
	t.Helper()
	if n := len(regexp.MustCompile("(?m)^(> )?```[A-Za-z0-9+._#-]*$").FindAllString(out, -1)); n%2 != 0 {
		t.Fatalf("%d fences in %q", n, out)
	}
}

func FuzzRender(f *testing.F) {
	platformtest.Seeds(f)
	for _, s := range []string{
		"[![a ![b](c)](https://d)](https://e) [![](x)](y)", "#### a\\", "- ```\n  `````\n  ```", "[a\nb](c\n\"d\")",
		"![[](a)](b)", "[c](c)", "[a ![b](b) ![c](d)](e)", "[a](b (c))", "[c](c (d))", "[](b (c))", "[a ![b](c (d))](https://e)", "[![](a (b))](https://c (d))",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, markdown string) {
		if len(markdown) > 1<<10 {
			return
		}
		markdown = Clean(markdown)
		out := Render(markdown)
		checkConserved(t, markdown, out)
		for _, limit := range []int{100, MaxText} {
			checkParts(t, out, limit)
		}
	})
}

// TestWordsSurviveRendering looks for the words of documents, in order.
func TestWordsSurviveRendering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, n := platformtest.Document(t)
		out := Render(source)
		platformtest.CheckWords(t, source, n, out)
		checkFences(t, out)
		checkParts(t, out, rapid.IntRange(100, 300).Draw(t, "limit"))
	})
}
