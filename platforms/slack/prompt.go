package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxButtons is how many elements a block of actions may have.
	maxButtons = 25
	// maxLabel is how many characters a button's text may have.
	maxLabel = 75
)

// Prompt implements platforms.Prompter. It is a Send whose last part has the buttons.
func (w *writer) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(maxButtons); err != nil {
		return relay.Result{}, err
	}
	l, err := w.cut(a.Content, dialect.MaxSection)
	if err != nil {
		return relay.Result{}, err
	}
	l.thread, l.buttons = threadOf(a.Meta), buttonsOf(a)
	return w.turns.Post(ctx, a.Chat, l)
}

// buttonsOf returns a prompt's buttons. The value says what a press means; the action's id must only differ between
// buttons.
func buttonsOf(a relay.Prompt) *slack.ActionBlock {
	block := slack.NewActionBlock("")
	for n, o := range a.Options {
		b := slack.NewButtonBlockElement(fmt.Sprint("hp", n), relay.PromptData(a.PromptID, o.ID),
			slack.NewTextBlockObject(slack.PlainTextType, cmp.Or(markdown.Label(dialect.Clean(o.Label), maxLabel), o.ID), true, false))
		switch o.Style {
		case "primary", "success":
			b.Style = slack.StylePrimary
		case "danger":
			b.Style = slack.StyleDanger
		}
		block.Elements.ElementSet = append(block.Elements.ElementSet, b)
	}
	return block
}

// Unprompt implements platforms.Prompter. Slack wants the message's text again, so Unprompt reads the message first. A
// message that is gone counts as one without buttons. Unprompt waits for a turn, because the update counts against the
// chat's rate, but leaves the turn before it calls Slack: others may write to the chat meanwhile.
func (w *writer) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	if err := checkMessage(message); err != nil {
		return err
	}
	t, err := w.turns.Enter(ctx, chat, ratelimit.Signal)
	if err != nil {
		return err
	}
	t.Leave()
	var m *rest.Message
	err = w.turns.Outside().Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) (err error) {
		m, err = w.rest.Message(ctx, string(chat), string(message))
		return err
	}})
	if err != nil {
		return explained(err)
	}
	left, had := withoutButtons(m)
	if !had {
		return nil
	}
	params := w.say(chat, m.Text)
	params.Set("ts", m.TS)
	blocks, _ := json.Marshal(left) // of JSON: cannot fail
	params.Set("blocks", string(blocks))
	err = w.again(ctx, t, rest.Update, params, nil)
	if err != nil && !rest.RefusedWith(err, "message_not_found") {
		return explained(err)
	}
	return nil
}

// withoutButtons returns m's blocks except those of buttons, and whether there were any buttons.
func withoutButtons(m *rest.Message) (left []json.RawMessage, had bool) {
	if m == nil {
		return nil, false
	}
	left = []json.RawMessage{} // nil would be written as null
	for _, raw := range m.Blocks {
		var block struct {
			Type slack.MessageBlockType `json:"type"`
		}
		if json.Unmarshal(raw, &block) == nil && block.Type == slack.MBTAction {
			had = true
			continue
		}
		left = append(left, raw)
	}
	return left, had
}
