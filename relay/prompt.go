package relay

import (
	"fmt"
	"regexp"
)

// Kinds of a prompt. Any other is as sensitive as PromptApproval.
const (
	PromptApproval = "approval"
	PromptClarify  = "clarify"
	PromptChoice   = "choice"
)

// OwnPrompt is the id of the connector's own questions. No gateway may ask under it: a press on such a question is not a
// gateway's to word.
const OwnPrompt = "hermes-connector"

// Answer is what the connector itself says to somebody. The zero value is silence.
type Answer struct {
	Text    string         // CommonMark
	Options []PromptOption // buttons below it, where the network has such
}

// maxPromptData is how many bytes may stand behind a button: what the narrowest network takes.
const maxPromptData = 64

// promptID is what ids of prompts and options look like.
var promptID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)

// promptData is what stands behind the button of a prompt.
var promptData = regexp.MustCompile(`^hp1:([A-Za-z0-9_.-]{1,32}):([A-Za-z0-9_.-]{1,32})$`)

// PromptData is what stands behind the button of an option, on every network.
func PromptData(prompt, option string) string { return "hp1:" + prompt + ":" + option }

// ParsePromptData reads what stood behind a button; ok is false for what no button of ours has.
func ParsePromptData(s string) (prompt, option string, ok bool) {
	m := promptData.FindStringSubmatch(s)
	if m == nil || len(s) > maxPromptData {
		return "", "", false
	}
	return m[1], m[2], true
}

// Misfit is why the prompt cannot have buttons, of which a network takes that many (0: any number), in words that have a
// gateway ask in text; nil if it can.
func (a Prompt) Misfit(most int) *ActionError {
	no := func(why string) *ActionError { return Refused("unsupported op prompt: "+why, nil) }
	switch {
	case !promptID.MatchString(a.PromptID):
		return no("a prompt_id has 1 to 32 of A-Z a-z 0-9 _ . -")
	case len(a.Options) == 0:
		return no("it has no options")
	case most > 0 && len(a.Options) > most:
		return no(fmt.Sprintf("at most %d options", most))
	}
	ids := make(map[string]bool)
	for _, o := range a.Options {
		switch {
		case !promptID.MatchString(o.ID):
			return no("an option's id has 1 to 32 of A-Z a-z 0-9 _ . -")
		case ids[o.ID]:
			return no("two options have one id")
		case len(PromptData(a.PromptID, o.ID)) > maxPromptData:
			return no(fmt.Sprintf("its ids have more than %d bytes together", maxPromptData))
		}
		ids[o.ID] = true
	}
	return nil
}
