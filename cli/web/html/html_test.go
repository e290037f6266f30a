package html

import (
	"strings"
	"testing"
)

func TestWhatIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		node Node
		want string
	}{
		"text":            {Text(`<b>&"'`), `&lt;b&gt;&amp;&#34;&#39;`},
		"element":         {El("p", Attr("class", `a"b`), Text("x"), nil, El("br")), `<p class="a&#34;b">x<br></p>`},
		"attribute later": {El("a", Text("x"), Attr("href", "/")), `<a href="/">x</a>`},
		"not UTF-8":       {Text("a\xff\x00b"), "a\uFFFDb"},
		"not to be seen":  {El("p", Attr("title", "a\x1b[31m\u009b\u202eb"), Text("c\u2066d\x07\u200d\tü\n😀")), "<p title=\"a[31mb\">cd\u200d\tü\n😀</p>"},
		"form":            {Form(`<p class="{}">{}, {}{}.</p>`, `a"b`, "<i>", El("b", Text("x")), Node(nil)), `<p class="a&#34;b">&lt;i&gt;, <b>x</b>.</p>`},
		"form, no holes":  {Form("<hr>"), "<hr>"},
		"form in a group": {Group(Form("<i>{}</i>", "{}"), Text("y")), "<i>{}</i>y"},
		"group":           {Group(Text("a"), nil, El("i")), "a<i></i>"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(Fragment(tc.node)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzValues: whatever the values are, the elements are those of the source.
func FuzzValues(f *testing.F) {
	f.Add(`"><script>`, "</p>")
	f.Fuzz(func(t *testing.T, value, words string) {
		for _, node := range []Node{El("p", Attr("title", value), Text(words)), Form(`<p title="{}">{}</p>`, value, words)} {
			got := string(Document(node))
			if strings.Count(got, "<") != 3 || strings.Count(got, ">") != 3 || strings.Count(got, `"`) != 2 {
				t.Errorf("%q, %q: %s", value, words, got)
			}
		}
	})
}
