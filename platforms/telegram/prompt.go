package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxButtons = 100 // of one prompt
	// Buttons stand two in a row, as phones have room for, unless a label has more characters than wideLabel.
	wideLabel = 20
	inARow    = 2
)

// Prompt implements platforms.Prompter. Its text is sent as by Send, with the buttons below the last part.
func (p *Bot) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if err := a.Misfit(maxButtons); err != nil {
		return relay.Result{}, err
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(relay.Send{ReplyTo: a.ReplyTo, Meta: a.Meta})
	l.buttons = keyboard(a)
	return p.turns.Post(ctx, a.Chat, l)
}

// button is an InlineKeyboardButton.
type button struct {
	Text  string `json:"text"`
	Data  string `json:"callback_data"`
	Style string `json:"style,omitempty"` // primary, success or danger; servers that do not know it ignore it
}

// keyboard returns the buttons of a prompt, as a message's reply_markup.
func keyboard(a relay.Prompt) string {
	var all []button
	row := inARow
	for _, o := range a.Options {
		b := button{Text: cmp.Or(strings.Join(strings.Fields(markdown.Clean(o.Label)), " "), o.ID), Data: relay.PromptData(a.PromptID, o.ID)}
		switch o.Style {
		case "primary", "success", "danger":
			b.Style = o.Style
		}
		if utf8.RuneCountInString(b.Text) > wideLabel {
			row = 1
		}
		all = append(all, b)
	}
	var k replyMarkup
	for len(all) > 0 {
		n := min(row, len(all))
		k.Rows, all = append(k.Rows, all[:n]), all[n:]
	}
	raw, _ := json.Marshal(k) // strings: cannot fail
	return string(raw)
}

// Unprompt implements platforms.Prompter. A message that is gone has no buttons. One that stayed in the old chat when
// the chat moved counts as gone.
func (p *Bot) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	number, ok := messageNumber(message)
	if !ok {
		return errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, chat, ratelimit.Signal)
	if err != nil {
		return err
	}
	defer t.Leave()
	err = p.call(ctx, t, "editMessageReplyMarkup", tgbotapi.Params{"message_id": number}, nil)
	if err == nil || movedTo(err) != 0 || refusedWith(err, "message is not modified", "message to edit not found", "message_id_invalid") {
		return nil
	}
	return explained(err)
}
