package status

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// TestMessages: the page asks for what was typed, and shows it with its answers; what is no time it does not ask for.
func TestMessages(t *testing.T) {
	f := healthy()
	f.decisions = []gate.Decision{{
		At: noon.Add(-time.Hour), Platform: "telegram", User: "4242", Person: "Ann", Says: `delivered to "home"`,
		Answers: []gate.Answer{{At: noon, Op: "send", Message: "77", State: "sent"}},
	}}
	s := newSection(f)
	said := textOf(serve(s, httptest.NewRequest("GET", "/messages?since=2d&person=+ann&gateway=home", nil)).Body.String())
	want := manage.Explain{Since: noon.AddDate(0, 0, -2), Person: "ann", Gateway: "home", Last: maxMessages}
	if f.explained != want {
		t.Errorf("asked for %+v, want %+v", f.explained, want)
	}
	for _, words := range []string{"from Ann", `delivered to &#34;home&#34;`, "answered at", "(send, message 77)"} {
		if !strings.Contains(said, words) {
			t.Errorf("the page does not say %q:\n%s", words, said)
		}
	}
	f.explained = manage.Explain{}
	page := serve(s, httptest.NewRequest("GET", "/messages?since=%3Cscript%3E", nil)).Body.String()
	if said := textOf(page); !strings.Contains(said, "That is no time") || strings.Contains(said, "No such message") || strings.Contains(page, "<script>") || f.explained.Last == maxMessages {
		t.Errorf("%+v was asked, and the page says %s", f.explained, page)
	}
}
