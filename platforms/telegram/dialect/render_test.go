package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// marked lists a text's formats as "type:covered text", with address or language behind "@".
func marked(text string, list []Style) []string {
	units := utf16.Encode([]rune(text))
	var out []string
	for _, e := range list {
		s := e.Type + ":" + string(utf16.Decode(units[e.Offset:e.end()]))
		if at := e.URL + e.Language; at != "" {
			s += "@" + at
		}
		out = append(out, s)
	}
	return out
}

func TestRender(t *testing.T) {
	for name, tc := range map[string]struct {
		in      string
		text    string
		formats []string
	}{
		"plain text":                {"Hello, *world", "Hello, *world", nil},
		"bold and italic":           {"**b** *i* __b__ _i_", "b i b i", []string{"bold:b", "italic:i", "bold:b", "italic:i"}},
		"nested formats":            {"**b *i* b**", "b i b", []string{"bold:b i b", "italic:i"}},
		"the same twice":            {"**a **b** c**", "a b c", []string{"bold:a b c"}},
		"strikethrough":             {"~~gone~~ and ~10 to ~20", "gone and ~10 to ~20", []string{"strikethrough:gone"}},
		"spoiler":                   {"||psst|| a || b || c", "psst a || b || c", []string{"spoiler:psst"}},
		"code":                      {"run `go  test`", "run go  test", []string{"code:go  test"}},
		"blank code":                {"a ` ` b", "a   b", nil},
		"code ends bold":            {"**use `x` now**", "use x now", []string{"bold:use", "code:x", "bold:now"}},
		"a link keeps out code":     {"[`x`](https://e.org)", "x", []string{"text_link:x@https://e.org"}},
		"link":                      {"see [the *docs*](https://e.org/a?b=c&d \"T\").", "see the docs.", []string{"text_link:the docs@https://e.org/a?b=c&d", "italic:docs"}},
		"tg link":                   {"[me](tg://user?id=7)", "me", []string{"text_link:me@tg://user?id=7"}},
		"relative link":             {"[the file](./docs/a.md)", "the file (./docs/a.md)", nil},
		"script link":               {"[x](javascript:alert(1))", "x (javascript:alert(1))", nil},
		"link without a dot":        {"[x](http://localhost:80/a)", "x (http://localhost:80/a)", nil},
		"mail link":                 {"[write](mailto:a@e.org) [a@e.org](mailto:a@e.org)", "write (a@e.org) a@e.org", nil},
		"link without label":        {"[](https://e.org)", "https://e.org", []string{"text_link:https://e.org@https://e.org"}},
		"link to nowhere":           {"[x]()", "x", nil},
		"bare links":                {"https://e.org/_a_b_ and <https://e.org/_x_>", "https://e.org/_a_b_ and https://e.org/_x_", nil},
		"image":                     {"![a cat](https://e.org/c.png)", "a cat", []string{"text_link:a cat@https://e.org/c.png"}},
		"image in a link":           {"[![cat](https://e.org/c.png)](https://e.org)", "cat", []string{"text_link:cat@https://e.org"}},
		"reference link":            {"see [docs][1]\n\n[1]: https://e.org", "see docs", []string{"text_link:docs@https://e.org"}},
		"unused reference":          {"see\n\n[1]: https://e.org", "see\n\n[1]: https://e.org", nil},
		"heading":                   {"# Big `x` *y*\ntext\n\nUnder\n===", "Big x y\ntext\n\nUnder", []string{"bold:Big", "code:x", "bold:y", "italic:y", "bold:Under"}},
		"line breaks":               {"one\ntwo  \nthree\\\nfour\n\nfive", "one\ntwo\nthree\nfour\n\nfive", nil},
		"windows line ends":         {"one\r\n\r\ntwo", "one\n\ntwo", nil},
		"rule":                      {"a\n\n---\n\nb", "a\n\n———\n\nb", nil},
		"bullets":                   {"- a\n- b\n  - c\n    more\n- d", "• a\n• b\n  • c\n    more\n• d", nil},
		"numbers":                   {"3. a\n4. b\n\n   more\n5) c", "3. a\n4. b\n\n   more\n5) c", nil},
		"tasks":                     {"- [x] done\n- [ ] open", "• ☑ done\n• ☐ open", nil},
		"quotation":                 {"> a\n> **b**\n\nc", "a\nb\n\nc", []string{"blockquote:a\nb", "bold:b"}},
		"quotation in another":      {"> a\n> > b\n> > c", "a\n> b\n> c", []string{"blockquote:a\n> b\n> c"}},
		"list in a quotation":       {"> - a\n> - b", "• a\n• b", []string{"blockquote:• a\n• b"}},
		"code block":                {"a\n```go\n  x := 1\n\n  y\n```\nb", "a\n  x := 1\n\n  y\nb", []string{"pre:  x := 1\n\n  y@go"}},
		"code block in a list":      {"- a\n\n  ```sh\n  ls\n    -l\n  ```\n- b", "• a\n\nls\n  -l\n• b", []string{"pre:ls\n  -l@sh"}},
		"code block in a quotation": {"> ```\n>   x\n> ```", "  x", []string{"blockquote:  x", "pre:  x"}},
		"indented code":             {"a\n\n    x = *y*\n", "a\n\nx = *y*", []string{"pre:x = *y*"}},
		"open code block":           {"```py\nprint()", "print()", []string{"pre:print()@py"}},
		"code block with words":     {"```two words\nx\n```", "two words\nx", []string{"pre:two words\nx"}},
		"text for a language":       {"```hello", "hello", []string{"pre:hello"}},
		"html":                      {"<b>x</b> &amp; <br>", "<b>x</b> & <br>", nil},
		"html block":                {"<div>\n**x**\n</div>", "<div>\n**x**\n</div>", nil},
		"html comment":              {"<!-- note\nto self --> x", "<!-- note\nto self --> x", nil},
		"escapes":                   {`\*a\* \&amp; &lt; &copy; &#65; &#x42; &nope; &notit; \q`, `*a* &amp; < © A B &nope; &notit; \q`, nil},
		"only markup":               {"```\n```", "```\n```", nil},
		"unfinished":                {"**a `b [c](d", "**a `b [c](d", nil},
		"a stream's cursor":         {"**a** b ▉", "a b ▉", []string{"bold:a"}},
		"broken utf-8":              {"a\xffb **c**", "a\uFFFDb c", []string{"bold:c"}},
		"offsets in utf-16":         {"😀 **😀b** `x`", "😀 😀b x", []string{"bold:😀b", "code:x"}},
		"table": {
			"a:\n\n| Name | n |\n|:--|--:|\n| **x** | 1 |\n| `long` [l](https://e.org) | 22 |\n\nb",
			"a:\n\nName                   |  n\n-----------------------+---\nx                      |  1\nlong l (https://e.org) | 22\n\nb",
			[]string{"pre:Name                   |  n\n-----------------------+---\nx                      |  1\nlong l (https://e.org) | 22"},
		},
		"wide characters in a table": {
			"|日本|b|\n|-|:-:|\n|a|xyz|", "日本 |  b\n-----+----\na    | xyz", []string{"pre:日本 |  b\n-----+----\na    | xyz"},
		},
		"cells beyond the last column": {
			"|a|\n|-|\n|1|2|3|", "a\n--+----\n1 | 2|3", []string{"pre:a\n--+----\n1 | 2|3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Render(markdown.Clean(tc.in))
			if diff := cmp.Diff(tc.text, got.text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.formats, marked(got.text, got.entities)); diff != "" {
				t.Errorf("formats (-want +got):\n%s", diff)
			}
			checkLegal(t, got.text, got.entities)
		})
	}
}

// checkLegal fails the test unless Telegram would take text and formats as they are.
func checkLegal(t platformtest.Failer, text string, list []Style) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("text is not valid UTF-8: %q", text)
	}
	units := utf16.Encode([]rune(text))
	inPair := func(i int) bool { return i < len(units) && units[i] >= 0xDC00 && units[i] < 0xE000 }
	for i, e := range list {
		at := fmt.Sprintf("%+v (number %d) of %q", e, i, text)
		switch {
		case e.Offset < 0 || e.Length <= 0 || e.end() > len(units):
			t.Fatalf("out of bounds or empty: %s", at)
		case inPair(e.Offset) || inPair(e.end()):
			t.Fatalf("cuts a surrogate pair: %s", at)
		case blank(units[e.Offset:e.end()]):
			t.Fatalf("covers nothing visible: %s", at)
		case e.Type != entityPre && e.Type != entityQuote && (markdown.IsSpace(units[e.Offset]) || markdown.IsSpace(units[e.end()-1])):
			t.Fatalf("blanks at the ends: %s", at)
		case e.Type == entityLink && !linkable(e.URL):
			t.Fatalf("address Telegram would refuse: %s", at)
		case i > 0 && (list[i-1].Offset > e.Offset || list[i-1].Offset == e.Offset && list[i-1].Length < e.Length):
			t.Fatalf("not sorted: %s", at)
		}
		for _, o := range list[:i] {
			if o.end() <= e.Offset {
				continue
			}
			switch {
			case e.end() > o.end():
				t.Fatalf("overlaps %+v without being inside: %s", o, at)
			case o.verbatim():
				t.Fatalf("inside code %+v: %s", o, at)
			case e.verbatim() && o.Type != entityQuote:
				t.Fatalf("code inside %+v: %s", o, at)
			case e.Type == o.Type:
				t.Fatalf("inside its like %+v: %s", o, at)
			}
		}
	}
}

// checkConserved fails the test if a letter of markdown is neither in the text nor in an address
// or a language. Markup that has letters of its own is left out of account.
func checkConserved(t platformtest.Failer, markdown string, r Rich) {
	t.Helper()
	for _, own := range []string{"&", "](", "[x]", "[X]", "]:", "][", "mailto:"} {
		if strings.Contains(markdown, own) {
			return
		}
	}
	got := platformtest.Letters(r.text)
	for _, e := range r.entities {
		for c, n := range platformtest.Letters(e.URL + e.Language) {
			got[c] += n
		}
	}
	platformtest.CheckLetters(t, markdown, r.text, got)
}

func FuzzRender(f *testing.F) {
	platformtest.Seeds(f)
	for _, s := range []string{
		"1. d\n   ```g", "0000000\n* 0) 00000\n     ` ` 0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1<<10 {
			return
		}
		source = markdown.Clean(source)
		r := Render(source)
		checkLegal(t, r.text, r.entities)
		checkConserved(t, source, r)
		checkMarks(t, source, r)
		for _, limit := range []int{7, 50, MaxText} {
			checkParts(t, r, limit)
		}
	})
}

// checkMarks fails the test unless every mark points into the source, in order of the text.
func checkMarks(t platformtest.Failer, source string, r Rich) {
	t.Helper()
	for i, m := range r.marks {
		if m.Start < 0 || m.Start > m.End || m.End > len(source) || i > 0 && m.At < r.marks[i-1].At {
			t.Fatalf("mark %d is %+v after %+v, source has %d bytes", i, m, r.marks[max(i-1, 0)], len(source))
		}
	}
	for at := range Units(r.text) {
		if pos := r.SourceAt(source, at); pos < 0 || pos > len(source) || pos < len(source) && !utf8.RuneStart(source[pos]) {
			t.Fatalf("unit %d comes from byte %d of %q", at, pos, source)
		}
	}
}

// TestWordsSurviveRendering looks for the words of documents, in order.
func TestWordsSurviveRendering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, n := platformtest.Document(t)
		r := Render(source)
		platformtest.CheckWords(t, source, n, r.text)
		checkLegal(t, r.text, r.entities)
		checkParts(t, r, rapid.IntRange(10, 60).Draw(t, "limit"))
	})
}

func TestHugeOrDeepMarkdownGoesPlain(t *testing.T) {
	for name, in := range map[string]string{
		"huge": strings.Repeat("**a** ", markdown.MaxSource),
		"deep": strings.Repeat("> ", markdown.MaxNesting+1) + "**a**",
	} {
		t.Run(name, func(t *testing.T) {
			if got := Render(in); got.text != in || got.entities != nil {
				t.Error("was parsed")
			}
		})
	}
}

func TestSourceAt(t *testing.T) {
	const source = "# Head\n\nsome **bold** and `code`\n- item &amp; more\n\n```go\nx := 1\ny := 2\n```\n"
	r := Render(source)
	units := utf16.Encode([]rune(r.text))
	for find, want := range map[string]string{
		"Head":   "# Head",
		"some":   "some **bold**",
		"bold":   "bold** and",
		"and":    "and `code`",
		"item":   "- item",
		"& more": "&amp; more",
		"x := 1": "x := 1",
		"= 2":    "= 2",
	} {
		at := slices.Index(utf16.Encode([]rune(r.text)), utf16.Encode([]rune(find))[0])
		for ; at < len(units) && !strings.HasPrefix(string(utf16.Decode(units[at:])), find); at++ {
		}
		if got := source[r.SourceAt(source, at):]; !strings.HasPrefix(got, want) {
			t.Errorf("%q comes from %q, want %q", find, got, want)
		}
	}
}
