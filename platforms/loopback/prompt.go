package loopback

import (
	"context"
	"errors"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// MaxButtons is how many buttons a message has at most.
	MaxButtons = 25

	// OpUnprompt is an Act that took the buttons off a message.
	OpUnprompt relay.Op = "unprompt"
	// OpNotice is an Act that told a person, and nobody else, why their press did nothing.
	OpNotice relay.Op = "notice"
)

// Press is a button that somebody presses.
type Press struct {
	Message        relay.MessageID // that the button is on
	Prompt, Option string
}

// Prompt posts a question with buttons, on the last part.
func (p *Platform) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(MaxButtons); err != nil {
		return relay.Result{}, err
	}
	act := Act{Op: relay.OpPrompt, Chat: a.Chat, Thread: a.Meta.ThreadID, ReplyTo: a.ReplyTo, Text: a.Content, Prompt: a.PromptID}
	labels := make(map[string]string)
	for i, o := range a.Options {
		if i > 0 {
			act.Options += " "
		}
		act.Options += o.ID
		labels[o.ID] = o.Label
	}
	res, err := p.do(ctx, act)
	if res.MessageID != "" {
		p.net.mu.Lock()
		p.net.buttons[posted{a.Chat, res.MessageID}] = labels
		p.net.mu.Unlock()
	}
	return res, err
}

// Unprompt takes the buttons off a message; that it has none is success.
func (p *Platform) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	p.net.mu.Lock()
	_, has := p.net.buttons[posted{chat, message}]
	p.net.mu.Unlock()
	if !has && p.file == nil { // a configured bot may have posted it before its restart
		return nil
	}
	_, err := p.do(ctx, Act{Op: OpUnprompt, Chat: chat, Message: message})
	return err
}

// Buttons are the ids and labels of the buttons that a message has now.
func (n *Network) Buttons(chat relay.ChatID, message relay.MessageID) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buttons[posted{chat, message}]
}

// pressLocked makes of ev a press. n.mu must be held.
func (n *Network) pressLocked(ev *relay.Event, p Press) {
	ev.Type, ev.Text = relay.TypeCommand, "/"+p.Option
	ev.Prompt = &relay.PromptResponse{
		PromptID: p.Prompt, OptionID: p.Option, PromptMessageID: p.Message,
		Label: n.buttons[posted{ev.Source.ChatID, p.Message}][p.Option],
	}
	ev.Traits.Press, ev.Traits.Addressed = true, true
}

// refused tells people why their presses did nothing.
func (p *Platform) refused(events []relay.Event) func(relay.EventID, string) {
	return func(press relay.EventID, words string) {
		for _, ev := range events {
			if ev.ID == press {
				p.note(Act{Op: OpNotice, Chat: ev.Source.ChatID, Thread: ev.Source.ThreadID, Message: ev.MessageID, Text: words})
			}
		}
	}
}

// parsePress reads press:MESSAGE:PROMPT:OPTION.
func parsePress(text string) (*Press, error) {
	rest, is := strings.CutPrefix(text, "press:")
	if !is {
		return nil, nil
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 {
		return nil, errors.New("line is not PERSON[@CHAT[#THREAD]] press:MESSAGE:PROMPT:OPTION")
	}
	return &Press{relay.MessageID(parts[0]), parts[1], parts[2]}, nil
}
