package page

import (
	"strings"
	"testing"
	"time"
)

var tried = Parse(`
	{{define "words"}}
		<p title="{{.}}">
			{{.}}
		</p>
	{{end}}
	{{define "address"}}<a href="{{.}}">x</a>{{end}}
`, nil)

func TestValues(t *testing.T) {
	for name, tc := range map[string]struct{ template, value, want string }{
		"markup":            {"words", `<b>&"'`, `<p title="&lt;b&gt;&amp;&#34;&#39;">&lt;b&gt;&amp;&#34;&#39;</p>`},
		"not UTF-8":         {"words", "a\xffb", "<p title=\"a\uFFFDb\">a\uFFFDb</p>"},
		"not to be seen":    {"words", "a\x1b[31m\u009b\u202eb", `<p title="a[31mb">a[31mb</p>`},
		"between letters":   {"words", "c\u2066d\x07\u200d\tü\n😀", "<p title=\"cd\u200d\tü\n😀\">cd\u200d\tü\n😀</p>"},
		"an address":        {"address", "https://a.example/?b&c", `<a href="https://a.example/?b&amp;c">x</a>`},
		"what is no such":   {"address", "javascript:alert(1)", `<a href="#ZgotmplZ">x</a>`},
		"moments":           {"sentence", "since 2026-11-23T12:00:00Z, <b>", `since <time datetime="2026-11-23T12:00:00Z" data-as="clock">` + time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Local().Format("2 Jan 15:04") + `</time>, &lt;b&gt;`},
		"no moment in them": {"sentence", "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(tried.HTML(tc.template, tc.value)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// FuzzValues: whatever the values are, the elements are those of the template.
func FuzzValues(f *testing.F) { // invariant 2
	f.Add(`"><script>`)
	f.Add("</p>")
	f.Fuzz(func(t *testing.T, value string) {
		got := string(tried.HTML("words", value))
		if strings.Count(got, "<") != 2 || strings.Count(got, ">") != 2 || strings.Count(got, `"`) != 2 {
			t.Errorf("%q: %s", value, got)
		}
	})
}
