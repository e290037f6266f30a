package chat

import (
	"strings"
	"testing"
)

func TestMarkup(t *testing.T) {
	const away = ` target="_blank" rel="noopener noreferrer nofollow">`
	for source, want := range map[string]string{
		"just *text* with **bold** and ~~gone~~": "<p>just <em>text</em> with <strong>bold</strong> and <s>gone</s></p>",
		"# Title\n\ntext":                        "<h3>Title</h3><p>text</p>",
		"one\ntwo":                               "<p>one<br>two</p>",
		"- a\n- b\n  1. c":                       "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>",
		"7. a\n8. b":                             `<ol start="7"><li>a</li><li>b</li></ol>`,
		"- a\n\n- b":                             "<ul><li><p>a</p></li><li><p>b</p></li></ul>",
		"- [x] done\n- [ ] not":                  "<ul><li>☑ done</li><li>☐ not</li></ul>",
		"> quoted\n> twice":                      "<blockquote><p>quoted<br>twice</p></blockquote>",
		"`a <b>`":                                "<p><code>a &lt;b&gt;</code></p>",
		"```go\nx := \"<&>\"\n\n\ty()\n```":      `<pre tabindex="0"><code>x := &#34;&lt;&amp;&gt;&#34;` + "\n\n\ty()</code></pre>",
		"    indented":                           `<pre tabindex="0"><code>indented</code></pre>`,
		"```\nnever closed":                      `<pre tabindex="0"><code>never closed</code></pre>`,
		"a\n\n---\n\nb":                          "<p>a</p><hr><p>b</p>",
		"5 \\* 3 &lt; 16 &amp; more":             "<p>5 * 3 &lt; 16 &amp; more</p>",
		"| a | b |\n|---|---|\n| 1 | *2* |": `<div class="wide" tabindex="0" role="region" aria-label="Table"><table>` +
			`<tr><th scope="col">a</th><th scope="col">b</th></tr><tr><td>1</td><td><em>2</em></td></tr></table></div>`,
		"see [the *page*](https://example.net/a?b&c)": `<p>see <a href="https://example.net/a?b&amp;c"` + away + "the <em>page</em></a></p>",
		"[x][1]\n\n[1]: https://example.net":          `<p><a href="https://example.net"` + away + "x</a></p>",
		"<https://example.net> or a@example.net": `<p><a href="https://example.net"` + away + `https://example.net</a> or <a href="mailto:a@example.net"` + away +
			"a@example.net</a></p>",
		"https://example.net/x":               `<p><a href="https://example.net/x"` + away + "https://example.net/x</a></p>",
		"![a cat](https://example.net/c.png)": `<p><a href="https://example.net/c.png"` + away + "a cat</a></p>",
		"[](https://example.net)":             `<p><a href="https://example.net"` + away + "https://example.net</a></p>",

		"[x](javascript:alert(1))":            "<p>x (javascript:alert(1))</p>",
		"[x](JaVaScRiPt&#58;alert(1))":        "<p>x (JaVaScRiPt:alert(1))</p>",
		"[x](data:text/html,hi)":              "<p>x (data:text/html,hi)</p>",
		"[x](/chat/home)":                     "<p>x (/chat/home)</p>",
		"[x](//example.net)":                  "<p>x (//example.net)</p>",
		"<script>alert(1)</script>":           "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
		"a <img src=x onerror=alert(1)> b":    "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>",
		`[a](https://x.net "\" onclick=\"x")`: `<p><a href="https://x.net"` + away + "a</a></p>",
		`[a](<https://x.net/" onclick="x>)`:   `<p><a href="https://x.net/%22%20onclick=%22x"` + away + "a</a></p>",
		"**Grüße** 😀 \u202e rechts":           "<p><strong>Grüße</strong> 😀  rechts</p>",
		strings.Repeat("> ", 200) + "deep":    `<pre>` + strings.Repeat("&gt; ", 200) + "deep</pre>",
		"":                                    "",
	} {
		if got := string(markup(source)); got != want {
			t.Errorf("%.60q\ngot  %s\nwant %s", source, got, want)
		}
	}
}

// FuzzMarkup: whatever a gateway writes, nothing but the elements and attributes of this package comes out.
func FuzzMarkup(f *testing.F) {
	for _, seed := range []string{"[x](javascript:x)", "<script>", "`a`", "| a |\n|-|\n| b |", "[a](<b\" c>)", "<a@b.c>"} {
		f.Add(seed)
	}
	allowed := []string{
		"h3", "p", "ul", "ol", "ol start=", "li", "blockquote", "pre", `pre tabindex="0"`, "code", "hr", "br", "em", "strong", "s", "table", "tr", "td",
		`th scope="col"`, `div class="wide" tabindex="0" role="region" aria-label="Table"`, `a href="http://`, `a href="https://`, `a href="mailto:`,
	}
	f.Fuzz(func(t *testing.T, source string) {
		out := string(markup(source))
	next:
		for _, after := range strings.Split(out, "<")[1:] {
			tag, _, _ := strings.Cut(after, ">")
			for _, a := range allowed {
				if tag == a || tag == "/"+a || strings.HasSuffix(a, "=") && strings.HasPrefix(tag, a) ||
					strings.HasPrefix(a, "a href") && strings.HasPrefix(strings.ToLower(tag), a) && strings.Count(tag, `"`) == 6 || tag == "/a" || tag == "/div" || tag == "/th" {
					continue next
				}
			}
			t.Fatalf("%q became <%s>", source, tag)
		}
	})
}
