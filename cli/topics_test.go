package cli

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var linkForm = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

func TestTopics(t *testing.T) {
	if len(helpTopics()) == 0 {
		t.Fatal("no topic")
	}
	for _, topic := range helpTopics() {
		t.Run(topic.name, func(t *testing.T) {
			text, ok := helpText(topic.name)
			if !ok || !strings.HasPrefix(text, "# ") || topic.title == "" || !strings.HasSuffix(text, "\n") {
				t.Errorf("want a text that begins with a title and ends with a line's end, got %.40q", text)
			}
			fenced := false
			for line := range strings.SplitSeq(text, "\n") {
				fenced = fenced != strings.HasPrefix(strings.TrimSpace(line), "```")
				code := fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "|")
				if n := utf8.RuneCountInString(line); n > 80 && !code {
					t.Errorf("a line of %d characters: %s", n, line)
				}
			}
			for _, m := range linkForm.FindAllStringSubmatch(text, -1) {
				other, local := strings.CutSuffix(m[2], ".md")
				if _, ok := helpText(other); local && !ok {
					t.Errorf("links to %s, which is no topic", m[2])
				}
				if !local && !strings.HasPrefix(m[2], "https://") {
					t.Errorf("links to %s, which no terminal can open", m[2])
				}
			}
		})
	}
}

func TestNoTopic(t *testing.T) {
	for _, name := range []string{"", "nope", "glossary.md", "../help/glossary", "."} {
		if text, ok := helpText(name); ok {
			t.Errorf("helpText(%q) = %.20q", name, text)
		}
	}
}
