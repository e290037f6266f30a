package slack

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// emojiNames has a line for each emoji: its name in Slack, and the emoji without variation selectors and skin tones. It
// was made from npm's emoji-datasource 16.0.0, whose names Slack uses.
//
//go:embed emoji.txt
var emojiNames string

// nameForm matches the names of emoji, including a workspace's custom ones.
var nameForm = regexp.MustCompile(`^[a-z0-9_+'-][a-z0-9_+'.-]*(::skin-tone-[2-6])?$`)

var namesOf = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(emojiNames) {
		name, emoji, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		m[emoji] = name
	}
	return m
})

// emojiName returns Slack's name for an emoji, which may be written as itself, as :name: or as name; empty if it is not
// an emoji.
func emojiName(emoji string) string {
	emoji = strings.TrimSpace(emoji)
	if name := strings.Trim(emoji, ":"); nameForm.MatchString(name) {
		return name
	}
	tone := ""
	bare := strings.Map(func(r rune) rune {
		switch {
		case r == '\ufe0e' || r == '\ufe0f': // variation selectors
			return -1
		case r >= '\U0001f3fb' && r <= '\U0001f3ff': // skin tones, which Slack counts from 2 on
			tone = fmt.Sprint("::skin-tone-", r-'\U0001f3fb'+2)
			return -1
		}
		return r
	}, emoji)
	if name := namesOf()[bare]; name != "" {
		return name + tone
	}
	return ""
}
