package gate

import (
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/relay"
)

// PressFacts are the facts that decide whether a press answers a prompt. The instance of Facts is the one that asked,
// and AuthorBound says that the person who pressed is bound to it, whatever else they are bound to. The facts about
// relevance are ignored: a press is meant for the instance that asked.
type PressFacts struct {
	Facts
	// Open: the prompt is stored, nobody has answered it, and its time is not over.
	Open bool
	// Offered: the option is one of the prompt's.
	Offered bool
	// OnMessage: the pressed message is the prompt's, as far as that is known.
	OnMessage bool
	// Sensitive: the prompt asks for an approval, or for something that is not known here.
	Sensitive bool
}

// DecidePress says whether the press goes to the instance that asked: Delivered, PromptClosed or PromptForeign.
func DecidePress(f PressFacts) Reason {
	switch {
	case !f.Open || !f.Offered || !f.OnMessage:
		return PromptClosed
	case f.AuthorBound:
		return Delivered
	case f.Sensitive || !f.admitted() || !f.Direct && !f.Visible:
		return PromptForeign
	}
	return Delivered
}

// IsApproval reports whether text is a /approve or /deny as any gateway may read it: in upper or lower case, with or
// without "@bot" and words behind it.
func IsApproval(text string) bool {
	text = strings.TrimFunc(text, isSpace)
	for _, command := range []string{"/approve", "/deny"} {
		if n := len(command); len(text) >= n && strings.EqualFold(text[:n], command) && !inName(text[n:]) {
			return true
		}
	}
	return false
}

// IsStop reports whether ev is a person's /stop, as gateways read commands: the first word, in upper or lower case,
// without an "@" and the text behind it. A command for another bot is delivered to nobody.
func IsStop(ev relay.Event) bool {
	if ev.Traits.AuthorIsBot || ev.Prompt != nil {
		return false
	}
	for word := range strings.FieldsSeq(ev.Text) {
		name, _, _ := strings.Cut(word, "@")
		return strings.EqualFold(name, "/stop")
	}
	return false
}

// Urgent reports whether ev ends or answers a running turn, and so waits for none: an answer to a prompt, a typed
// approval or a stop.
func Urgent(ev relay.Event) bool { return ev.Prompt != nil || IsApproval(ev.Text) || IsStop(ev) }

// isSpace reports whether gateways take r for a space: in Python, ASCII's four separators are spaces, too.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// inName reports whether rest goes on with the name of a longer command.
func inName(rest string) bool {
	for _, r := range rest {
		return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return false
}
