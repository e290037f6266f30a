package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// span is a distance in time as one would say it, in steps so coarse that a page does not change with every second.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return manage.Counted(int(d/time.Minute), "minute", "minutes")
	case d < 48*time.Hour:
		return manage.Counted(int(d/time.Hour), "hour", "hours")
	}
	return manage.Counted(int(d/(24*time.Hour)), "day", "days")
}

// ago is how long ago t was, as a node that also holds the exact time; none says what a zero t means.
func ago(t, now time.Time, none string) html.Node {
	if t.IsZero() {
		return html.Text(none)
	}
	return html.Form(`<time datetime="{}">{} ago</time>`, finding.Stamp(t), span(max(0, now.Sub(t))))
}

// size is bytes as people say them.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", (n+1<<10-1)>>10)
}

// delay is how long messages took.
func delay(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d/time.Millisecond)
}

// look is a state's mark, its class and its words.
type look struct{ mark, class, words string }

var botLooks = map[platforms.State]look{
	platforms.Connected:      {"✓", "good", "connected"},
	platforms.Starting:       {"…", "warn", "starting"},
	platforms.Connecting:     {"…", "warn", "connecting"},
	platforms.Degraded:       {"!", "warn", "in trouble"},
	platforms.BadCredentials: {"✗", "bad", "its token is refused"},
	platforms.Stopped:        {"✗", "bad", "stopped"},
}

var gatewayLooks = map[manage.State]look{
	manage.Connected: {"✓", "good", "connected"},
	manage.Asleep:    {"✓", "good", "asleep, as it said"},
	manage.Away:      {"!", "warn", "away"},
}

// gatewayLook is a gateway's. Who never came is not away.
func gatewayLook(g manage.Gateway) look {
	if g.LastSeenAt.IsZero() && (g.State == manage.Away || g.State == manage.Asleep) {
		return look{"!", "warn", "never connected"}
	}
	return gatewayLooks[g.State]
}

// badge shows a look: the mark is for the eye, the words are for everybody.
func badge(l look) html.Node {
	return html.Form(`<span class="{}"><span class="mark" aria-hidden="true">{} </span>{}</span>`, l.class, l.mark, l.words)
}

// command is text to copy. The button needs the script, which shows it.
func command(text string) html.Node {
	return html.Form(`<div class="copy"><code>{}</code><button type="button" class="quiet" hidden="" data-copy="{}" aria-label="Copy {}">Copy</button></div>`,
		text, text, text)
}

// fix is how something is mended: a command to copy, or words with commands between backticks.
func fix(text string) html.Node {
	if strings.HasPrefix(text, "hermes-connector ") {
		return command(text)
	}
	var words []html.Node
	for n, part := range strings.Split(text, "`") {
		if n%2 == 0 {
			words = append(words, html.Text(part))
		} else {
			words = append(words, html.Form("<code>{}</code>", part))
		}
	}
	return html.Form("<p>{}</p>", html.Group(words...))
}

// label is what people call a network.
func (s *Section) label(p relay.PlatformID) string {
	if l, ok := s.o.Labels[p]; ok {
		return l
	}
	return string(p)
}

// row is a term and what is to be said of it; nothing without words.
func row(term string, about html.Node) html.Node {
	if about == nil {
		return nil
	}
	return html.Form("<dt>{}</dt><dd>{}</dd>", term, about)
}

// section is a part of the page: its heading, and what stands below it.
func section(heading string, below ...html.Node) html.Node {
	return html.Form("<h2>{}</h2>{}", heading, html.Group(below...))
}

// warning is a sentence to be looked at.
func warning(text string) html.Node { return html.Form(`<p class="warn">{}</p>`, page.Sentence(text)) }

// cards are a list of cards.
func cards(class string, all []html.Node) html.Node {
	items := make([]html.Node, len(all))
	for i, n := range all {
		items[i] = html.Form(`<li class="card">{}</li>`, n)
	}
	return html.Form(`<ul class="{}">{}</ul>`, class, html.Group(items...))
}
