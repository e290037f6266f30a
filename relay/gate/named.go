package gate

import (
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Callable is an instance that a person may mean by a name.
type Callable struct {
	Instance relay.InstanceID
	Label    string // the name it was given; empty: its id is its name
}

// Spoken returns the instance that a message names, if the message begins with "@" and an instance's name or id, in
// upper or lower case, and the text behind that. ok is false if it names none of the instances, or several, or is a
// press, a bot's message, or a forwarded one. Naming only narrows: the named instance gets only what the gate lets it
// have anyway. That is why it also counts if somebody on the network may have that name: Telegram marks every word
// behind an "@" as a mention, whether or not there is such an account, and Discord writes mentions in another way.
func Spoken(ev relay.Event, among []Callable) (i relay.InstanceID, rest string, ok bool) {
	t := ev.Traits
	text, at := strings.CutPrefix(strings.TrimLeftFunc(ev.Text, unicode.IsSpace), "@")
	if !at || ev.Prompt != nil || t.Press || t.AuthorIsBot || t.Forwarded {
		return "", "", false
	}
	name, rest := text, ""
	if n := strings.IndexFunc(text, unicode.IsSpace); n >= 0 {
		name, rest = text[:n], strings.TrimLeftFunc(text[n:], unicode.IsSpace)
	}
	// First the name as it was written, then without a comma or a colon at its end.
	for _, name := range []string{name, strings.TrimRight(name, ",:")} {
		var named []relay.InstanceID
		for _, c := range among {
			if strings.EqualFold(name, string(c.Instance)) || c.Label != "" && strings.EqualFold(name, c.Label) {
				named = append(named, c.Instance)
			}
		}
		if len(named) == 1 {
			return named[0], rest, true
		}
	}
	return "", "", false
}

// Without returns ev as the instance that it names gets it: with the text rest, which is without the name, unless rest
// is empty.
func Without(ev relay.Event, rest string) relay.Event {
	if rest == "" {
		return ev
	}
	ev.Text, ev.Traits.Named = rest, true
	if ev.Type == relay.TypeText && strings.HasPrefix(rest, "/") {
		ev.Type = relay.TypeCommand
	}
	return ev
}
