package page

import (
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// Clock is a moment as people say it. As all times, the browser's script shows it in the browser's time zone.
func Clock(t time.Time) html.Node {
	return html.Form(`<time datetime="{}" data-as="clock">{}</time>`, finding.Stamp(t), finding.Clock(t))
}

// Day is the day of a moment.
func Day(t time.Time) html.Node {
	return html.Form(`<time datetime="{}" data-as="day">{}</time>`, finding.Stamp(t), t.Local().Format("2 Jan 2006"))
}

// Sentence is words, with their moments as Clock shows them.
func Sentence(words string) html.Node {
	var all []html.Node
	for text, at := range finding.Moments(words) {
		all = append(all, html.Text(text))
		if !at.IsZero() {
			all = append(all, Clock(at))
		}
	}
	return html.Group(all...)
}
