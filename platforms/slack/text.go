package slack

import (
	"cmp"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
)

// reading turns Slack's markup into the Markdown that agents read.
type reading struct {
	me string // the bot's user id: its mentions are left out
	// person and channel return the name for an id; empty: not known.
	person, channel func(id string) string
}

// plain returns text without Slack's escapes: "<…>" is an address, a mention or a word to all, and "&lt;" is "<".
func (r reading) plain(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "<")
		b.WriteString(unescaped(before))
		if !ok {
			return b.String()
		}
		inside, after, ok := strings.Cut(rest, ">")
		if !ok { // without a ">" it is no markup; it stays, though Slack escapes every "<" that a person writes
			b.WriteString("<" + unescaped(rest))
			return b.String()
		}
		b.WriteString(r.marked(inside))
		text = after
	}
}

// unescaped returns s with Slack's three escapes replaced by their characters.
func unescaped(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// marked renders the text between "<" and ">".
func (r reading) marked(inside string) string {
	what, label, labelled := strings.Cut(inside, "|")
	label = unescaped(label)
	switch {
	case strings.HasPrefix(what, "@"):
		return r.mention(what[1:], label)
	case strings.HasPrefix(what, "#"):
		return "#" + cmp.Or(r.channel(what[1:]), label, what[1:])
	case strings.HasPrefix(what, "!subteam^"):
		return "@" + strings.TrimPrefix(cmp.Or(label, strings.TrimPrefix(what, "!subteam^")), "@")
	case strings.HasPrefix(what, "!date^"):
		return label
	case strings.HasPrefix(what, "!"):
		return "@" + cmp.Or(label, what[1:])
	}
	address := unescaped(what)
	if mail, ok := strings.CutPrefix(address, "mailto:"); ok && (!labelled || label == mail) {
		return mail
	}
	if !labelled || label == "" || label == address || "http://"+label == address || "https://"+label == address {
		return address
	}
	return "[" + strings.NewReplacer("[", "\\[", "]", "\\]").Replace(label) + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(address) + ")"
}

// mention returns a person's name behind an "@"; the bot's own is nothing.
func (r reading) mention(id, label string) string {
	if id == r.me {
		return ""
	}
	return "@" + strings.TrimPrefix(cmp.Or(r.person(id), label, id), "@")
}

// mentions reports whether text mentions the bot.
func (r reading) mentions(text string) bool {
	return r.me != "" && (strings.Contains(text, "<@"+r.me+">") || strings.Contains(text, "<@"+r.me+"|"))
}

// maxDepth bounds how deep rich text is read.
const maxDepth = 8

// rich returns the text of blocks, for a message whose text is empty: lines of Markdown.
func (r reading) rich(blocks []blockData) string {
	var lines []string
	for _, b := range blocks {
		if text := strings.Trim(r.block(b, maxDepth), "\n"); text != "" {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "\n")
}

// block returns the text of one block. Block Kit's own texts are in Slack's markup; those of rich text are plain.
func (r reading) block(b blockData, depth int) string {
	if depth == 0 {
		return ""
	}
	inner := func(sep string) string {
		var parts []string
		for _, e := range b.Elements {
			parts = append(parts, r.block(e, depth-1))
		}
		return strings.Join(parts, sep)
	}
	switch b.Type {
	case "rich_text":
		return inner("\n")
	case "rich_text_section":
		return inner("")
	case "rich_text_quote":
		return "> " + strings.ReplaceAll(strings.TrimSpace(inner("")), "\n", "\n> ")
	case "rich_text_preformatted":
		return "```\n" + strings.Trim(inner(""), "\n") + "\n```"
	case "rich_text_list":
		mark := "- "
		if b.Style == "ordered" {
			mark = "1. "
		}
		var lines []string
		for _, e := range b.Elements {
			lines = append(lines, mark+r.block(e, depth-1))
		}
		return strings.Join(lines, "\n")
	case "link":
		if b.Text != "" && string(b.Text) != b.URL {
			return r.marked(dialect.Escape(b.URL) + "|" + dialect.Escape(string(b.Text)))
		}
		return b.URL
	case "user":
		return r.mention(b.UserID, "")
	case "channel":
		return "#" + cmp.Or(r.channel(b.Channel), b.Channel)
	case "emoji":
		return ":" + b.Name + ":"
	case "broadcast":
		return "@" + b.Range
	case "text":
		return string(b.Text)
	case "section", "header", "context", "markdown":
		return cmp.Or(r.plain(string(b.Text)), inner(" "))
	case "mrkdwn", "plain_text":
		return r.plain(string(b.Text))
	}
	return ""
}
