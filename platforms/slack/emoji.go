package slack

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// emojiNames has a line for each emoji: its name at Slack, and the emoji without variation selectors and skin tones. It was
// made of npm's emoji-datasource 16.0.0, the names of which Slack uses.
//
//go:embed emoji.txt
var emojiNames string

// nameForm is that of names of emoji, those of a workspace's own making among them.
var nameForm = regexp.MustCompile(`^[a-z0-9_+'-][a-z0-9_+'.-]*(::skin-tone-[2-6])?$`)

var namesOf = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(emojiNames) {
		name, emoji, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		m[emoji] = name
	}
	return m
})

// emojiName is Slack's name of an emoji, which may be written as itself, as :name: or as name; empty if it is none.
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
