package status

import (
	"cmp"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// verdicts are the newest decisions, in words.
func (s *Section) verdicts(v view) html.Node {
	head := html.El("h2", html.Text("Where messages went"))
	if len(v.verdicts) == 0 {
		return html.Group(head, html.El("p", html.Text("No message has come since the server started.")))
	}
	nodes := []html.Node{html.Attr("class", "plain")}
	for _, d := range v.verdicts {
		nodes = append(nodes, html.El("li", html.Attr("class", "card"), s.verdict(d, v.at)))
	}
	return html.Group(head, html.El("ul", nodes...))
}

func (s *Section) verdict(d gate.Decision, now time.Time) html.Node {
	from := s.label(d.Platform)
	if d.User != "" {
		from += ", from " + string(d.User)
	}
	if d.Chat != "" && string(d.Chat) != string(d.User) {
		from += " in " + string(d.Chat)
	}
	says := cmp.Or(d.Says, string(d.Reason))
	if d.Says == "" && d.Hint != "" {
		says += ": " + d.Hint
	}
	nodes := []html.Node{
		html.El("div", html.Attr("class", "dim"), ago(d.At, now, ""), html.Text(", "+from)),
		html.El("div", html.Text(says)),
	}
	if d.Change != "" {
		nodes = append(nodes, command(d.Change))
	}
	return html.Group(nodes...)
}
