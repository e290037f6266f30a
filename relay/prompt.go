package relay

import (
	"fmt"
	"regexp"
)

// Kinds of a prompt. Any other kind is as sensitive as PromptApproval.
const (
	PromptApproval = "approval"
	PromptClarify  = "clarify"
	PromptChoice   = "choice"
)

// OwnPrompt is the id of the connector's own questions. No gateway may ask under it: the connector itself obeys a press
// on such a question, so no gateway may choose its words.
const OwnPrompt = "hermes-connector"

// Answer is the connector's own message to a person. The zero value is silence.
type Answer struct {
	Text    string         // CommonMark
	Options []PromptOption // buttons below it, if the network has buttons
}

// maxPromptData is how many bytes of data a button may have, on the network with the lowest limit.
const maxPromptData = 64

// promptID matches the ids of prompts and options.
var promptID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)

// promptData matches the data of a prompt's button.
var promptData = regexp.MustCompile(`^hp1:([A-Za-z0-9_.-]{1,32}):([A-Za-z0-9_.-]{1,32})$`)

// PromptData returns the data of the button for an option, on every network.
func PromptData(prompt, option string) string { return "hp1:" + prompt + ":" + option }

// ParsePromptData reads the data of a button; ok is false if it is not a button of ours.
func ParsePromptData(s string) (prompt, option string, ok bool) {
	m := promptData.FindStringSubmatch(s)
	if m == nil || len(s) > maxPromptData {
		return "", "", false
	}
	return m[1], m[2], true
}

// Misfit returns why the prompt cannot have buttons on a network that allows at most so many options (0: any number);
// nil if it can. The error's words make a gateway ask in text.
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
