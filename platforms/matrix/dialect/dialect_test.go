package dialect

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestHTML(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                         "",
		"two\nlines":                    "",
		"two\n\nparagraphs & <3":        "",
		"**b** _i_ ~~s~~ `c`":           "<strong>b</strong> <em>i</em> <del>s</del> <code>c</code>",
		"# Head\ntext":                  "<h1>Head</h1>\n<p>text</p>",
		"- a\n- b":                      "<ul>\n<li>a</li>\n<li>b</li>\n</ul>",
		"- [x] a":                       "<ul>\n<li>☑ a</li>\n</ul>",
		"|a|b|\n|-|:-:|\n|1|2|":         "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>",
		"```go\nx := 1\n```":            "<pre><code class=\"language-go\">x := 1\n</code></pre>",
		"<b>x</b> **y**":                "&lt;b&gt;x&lt;/b&gt; <strong>y</strong>",
		"<script>\nalert(1)\n</script>": "",
		"[t](https://e.org/?a=1&b=2)":   `<a href="https://e.org/?a=1&amp;b=2">t</a>`,
		"[t](javascript:alert(1))":      "t (javascript:alert(1))",
		"![cat](https://e.org/c.png)":   `<a href="https://e.org/c.png">cat</a>`,
		"see https://e.org/x":           `see <a href="https://e.org/x">https://e.org/x</a>`,
		"a@e.org":                       `<a href="mailto:a@e.org">a@e.org</a>`,
		"> q":                           "<blockquote>\n<p>q</p>\n</blockquote>",
		strings.Repeat(">", 200) + "x":  "",
	} {
		if diff := cmp.Diff(want, HTML(in)); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", in, diff)
		}
	}
}

func TestSplit(t *testing.T) {
	code := "```go\n" + strings.Repeat("line of code\n", 20) + "```"
	parts := Split("before\n\n"+code+"\n\nafter", 100)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	lines := 0
	for i, p := range parts {
		if n := utf8.RuneCountInString(p); n > 100 {
			t.Errorf("part %d has %d characters", i, n)
		}
		if strings.Count(p, "```")%2 != 0 {
			t.Errorf("part %d has a fence open: %q", i, p)
		}
		lines += strings.Count(p, "line of code")
	}
	if lines != 20 {
		t.Errorf("%d lines of code are left of 20", lines)
	}
	if got := Split(" \n ", 100); got != nil {
		t.Errorf("nothing comes to %q", got)
	}
}

// allowed are the tags that clients take (client-server API, m.room.message), of those that are written.
var allowed = strings.Fields("p br strong em del code pre a ul ol li blockquote h1 h2 h3 h4 h5 h6 hr table thead tbody tr th td")

// FuzzDialect: every part is short enough, and its HTML is whole, with no tag and no address that clients drop.
func FuzzDialect(f *testing.F) {
	for _, s := range []string{"**a** <b onclick=x>", "```\na\n", "[a](javascript:x) ![](data:x)", "<a@b.c> <http://x>", "- [ ] a\n|a|\n|-|", "&lt;img&gt; \\<i> <!-- x -->", "[x]: y\n[x]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, part := range Split(Clean(source), 60) {
			if n := utf8.RuneCountInString(part); n > 60 {
				t.Fatalf("%d characters in %q", n, part)
			}
			d := xml.NewDecoder(strings.NewReader("<x>" + HTML(part) + "</x>"))
			d.Entity = xml.HTMLEntity
			for {
				token, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil && strings.Contains(err.Error(), "illegal character code") { // of a control character in the text
					break
				}
				if err != nil {
					t.Fatalf("%q makes %q: %v", part, HTML(part), err)
				}
				checkTag(t, part, token)
			}
		}
	})
}

func checkTag(t *testing.T, part string, token xml.Token) {
	start, ok := token.(xml.StartElement)
	if !ok || start.Name.Local == "x" {
		return
	}
	known := false
	for _, name := range allowed {
		known = known || name == start.Name.Local
	}
	if !known {
		t.Fatalf("%q makes the tag %q", part, start.Name.Local)
	}
	for _, a := range start.Attr {
		switch {
		case a.Name.Local == "href" && linkable(a.Value), a.Name.Local == "start" && start.Name.Local == "ol":
		case a.Name.Local == "class" && start.Name.Local == "code" && strings.HasPrefix(a.Value, "language-"):
		default:
			t.Fatalf("%q makes the attribute %s=%q", part, a.Name.Local, a.Value)
		}
	}
}
