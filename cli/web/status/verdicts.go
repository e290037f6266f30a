package status

import (
	"cmp"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// verdicts are the newest decisions, in words.
func (s *Section) verdicts(v view) html.Node {
	const heading = "Where messages went"
	if len(v.verdicts) == 0 {
		return section(heading, html.Form("<p>No message has come since the server started.</p>"))
	}
	var all []html.Node
	for _, d := range v.verdicts {
		all = append(all, s.verdict(d, v.at))
	}
	return section(heading, cards("plain", all))
}

func (s *Section) verdict(d gate.Decision, now time.Time) html.Node {
	var user, chat html.Node
	if d.User != "" {
		user = html.Form(", from <bdi>{}</bdi>", string(d.User))
	}
	if d.Chat != "" && string(d.Chat) != string(d.User) {
		chat = html.Form(" in <bdi>{}</bdi>", string(d.Chat))
	}
	says := cmp.Or(d.Says, string(d.Reason))
	if d.Says == "" && d.Hint != "" {
		says += ": " + d.Hint
	}
	var change html.Node
	if d.Change != "" {
		change = command(d.Change)
	}
	return html.Form(`<div class="dim">{}, {}{}{}</div><div>{}</div>{}`, ago(d.At, now, ""), s.label(d.Platform), user, chat, page.Sentence(says), change)
}
