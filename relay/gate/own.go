package gate

import (
	"slices"
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Owned is one of the instances to which an author is linked.
type Owned struct {
	Instance relay.InstanceID
	// DMDefault: this one gets the author's direct messages.
	DMDefault bool
	// Commands are the only messages that the instance gets from the author, each as "/name"; empty: it gets everything
	// that they write.
	Commands []string
}

// OwnInstance chooses which of an author's own instances may receive the event. First comes the one to which they are
// linked for this command, unless they name another. Then comes one of those to which they are linked for everything:
// the holder of the grant covering a shared chat, or the one that a direct message names. If that is none of them, the
// choice in either sort of chat is the first one marked as default for direct messages, else the one to which they were
// bound first. owned is in the order of binding; holder, named and command are empty if there is none; command is that
// of the event without a name. ok is false if there is nothing to choose.
func OwnInstance(owned []Owned, holder, named relay.InstanceID, command string, direct bool) (_ relay.InstanceID, ok bool) {
	if n := slices.IndexFunc(owned, func(o Owned) bool {
		return slices.Contains(o.Commands, command) && (named == "" || named == o.Instance)
	}); n >= 0 {
		return owned[n].Instance, true
	}
	owned = Whole(owned)
	if len(owned) == 0 {
		return "", false
	}
	chosen := holder
	if direct {
		chosen = named
	}
	if slices.ContainsFunc(owned, func(o Owned) bool { return o.Instance == chosen }) {
		return chosen, true
	}
	return owned[max(0, slices.IndexFunc(owned, func(o Owned) bool { return o.DMDefault }))].Instance, true
}

// Whole returns those of owned that are not linked for commands only.
func Whole(owned []Owned) (whole []Owned) {
	for _, o := range owned {
		if len(o.Commands) == 0 {
			whole = append(whole, o)
		}
	}
	return whole
}

// CommandOf returns the command that a person gave with ev: its first word, as they typed it, without "@" and a bot's
// name. It is empty if ev is not a command, is a press, or was forwarded. Commands for another bot are delivered to
// nobody, so the name is not compared.
func CommandOf(ev relay.Event) string {
	if ev.Prompt != nil || ev.Traits.Press || ev.Traits.Forwarded {
		return ""
	}
	for word := range strings.FieldsFuncSeq(ev.Text, isSpace) {
		name, _, _ := strings.Cut(word, "@")
		if IsCommand(name) {
			return name
		}
		break
	}
	return ""
}

// maxCommand is how long a command may be without its slash, in characters. Telegram and Discord have the same limit.
const maxCommand = 32

// IsCommand reports whether name can be a command: "/" and 1 to 32 letters, digits, "_" and "-".
func IsCommand(name string) bool {
	name, slash := strings.CutPrefix(name, "/")
	n := 0
	for _, r := range name {
		if n++; r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return slash && n > 0 && n <= maxCommand
}
