package status

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// funcs are the functions of the templates.
var funcs = template.FuncMap{
	"counted":     manage.Counted,
	"span":        span,
	"size":        size,
	"capital":     capital,
	"called":      called,
	"hour":        func(t time.Time) string { return t.Local().Format("15:04") },
	"class":       class,
	"says":        says,
	"answered":    words.Answer,
	"hears":       hears,
	"kept":        func(w *manage.Waiting, now time.Time) string { return words.Kept(w.Why, w.Next, now) },
	"botLook":     func(s platforms.State) look { return botLooks[s] },
	"gatewayLook": gatewayLook,
	"bare":        bare,
	"isCommand":   func(fix string) bool { return strings.HasPrefix(fix, "hermes-connector ") },
	"backticks":   func(text string) []string { return strings.Split(text, "`") },
	"odd":         func(n int) bool { return n%2 == 1 },
	"beyond":      func(most int, all []string) int { return max(0, len(all)-most) },
}

// capital returns words with a capital letter at the beginning.
func capital(words string) string {
	first, n := utf8.DecodeRuneInString(words)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + words[n:]
}

// bare returns the name of an account without the "@" before it.
func bare(name string) string { return strings.TrimPrefix(name, "@") }

// called returns a gateway's name for people.
func called(g manage.Gateway) string { return cmp.Or(g.Name, string(g.ID)) }

// class returns the CSS class for the severity of a finding.
func class(f finding.Finding) string {
	if f.Severity == finding.Fault {
		return "bad"
	}
	return "warn"
}

// says returns a decision in words.
func says(d gate.Decision) string {
	if d.Says == "" && d.Hint != "" {
		return string(d.Reason) + ": " + d.Hint
	}
	return cmp.Or(d.Says, string(d.Reason))
}

// hears returns in words whose messages reach a gateway.
func hears(p manage.Principal) string {
	switch p.Policy {
	case relay.AnyOne:
		return "everybody in its chats"
	case relay.AllowList:
		return "linked people, and " + manage.Counted(len(p.Allow), "person", "people") + " on its list"
	}
	return "linked people only"
}

// span returns a distance in time as one would say it, in steps so coarse that a page does not change with every
// second.
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

// size returns a number of bytes as people say it.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", (n+1<<10-1)>>10)
}

// delay renders how long messages took.
func delay(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d/time.Millisecond)
}

// look is how a state is shown: its mark, its CSS class and its words.
type look struct{ Mark, Class, Words string }

var botLooks = map[platforms.State]look{
	platforms.Connected:      {"✓", "good", "connected"},
	platforms.Starting:       {"…", "warn", "starting"},
	platforms.Connecting:     {"…", "warn", "connecting"},
	platforms.Degraded:       {"!", "warn", "has a problem"},
	platforms.BadCredentials: {"✗", "bad", "its token is refused"},
	platforms.Stopped:        {"✗", "bad", "stopped"},
}

var gatewayLooks = map[manage.State]look{
	manage.Connected: {"✓", "good", "connected"},
	manage.Asleep:    {"✓", "good", "asleep, as it said"},
	manage.Away:      {"!", "warn", "away"},
}

// gatewayLook returns the look of a gateway's state. A gateway that never connected is not shown as away or asleep.
func gatewayLook(g manage.Gateway) look {
	if g.LastSeenAt.IsZero() && (g.State == manage.Away || g.State == manage.Asleep) {
		return look{"!", "warn", "never connected"}
	}
	return gatewayLooks[g.State]
}
