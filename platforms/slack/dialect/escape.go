package dialect

import (
	"regexp"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

const (
	// MaxText is how many characters a message may have. Slack accepts 40,000, but shows long messages badly.
	MaxText = 4000
	// MaxSection is how many characters Slack accepts in a section, of which a message with buttons is made.
	MaxSection = 3000
)

const (
	quoteMark = "> "
	fence     = "```"
	// joint is a zero-width space. mrkdwn has no escapes: between a letter and a mark, a joint makes the mark count;
	// right behind a mark, it keeps the mark from counting.
	joint = "\u200b"
)

// Clean prepares source for the parser and for Slack: among other things it replaces NUL characters.
func Clean(source string) string {
	return strings.ReplaceAll(markdown.Clean(source), "\x00", "\uFFFD")
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Escape escapes s, so that Slack shows it literally except for the marks of formats.
func Escape(s string) string { return entities.Replace(s) }

// literal escapes plain text, so that nothing in it counts as markup: no fences, formats or quotations.
func literal(s string) string {
	s = withoutFences(Escape(s))
	s = pair.ReplaceAllStringFunc(s, func(m string) string {
		at := strings.IndexAny(m, "*_~`")
		return m[:at+1] + joint + m[at+1:]
	})
	return quoted.ReplaceAllString(s, joint+"$1")
}

var (
	// pair matches where Slack would take a mark for the beginning of a format, because the same mark stands again
	// later on the line.
	pair = regexp.MustCompile("(?:^|[^\\pL\\pN*_~`])(?:\\*[^\\s*][^\n*]*\\*|_[^\\s_][^\n_]*_|~[^\\s~][^\n~]*~|`[^\\s`][^\n`]*`)")
	// quoted is a mark that makes a quotation of its line. Slack takes the entity for one, too.
	quoted    = regexp.MustCompile(`(?m)^(&gt;)`)
	longTicks = regexp.MustCompile("`{3,}")
)

// withoutFences breaks up runs of backticks, so that none makes a code block.
func withoutFences(s string) string {
	return longTicks.ReplaceAllStringFunc(s, func(run string) string {
		return strings.TrimSuffix(strings.ReplaceAll(run, "``", "``"+joint), joint)
	})
}
