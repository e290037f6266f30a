package telegram

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxButtons = 100
	maxPayload = 64 // bytes that a button carries
	// Buttons stand two in a row, as phones have room for, unless a label has more characters than wideLabel.
	wideLabel = 20
	inARow    = 2

	payloadMark = "hp1:"
)

// buttonData is what a prompt's button carries: hp1:<prompt>:<option>.
var buttonData = regexp.MustCompile(`^hp1:([A-Za-z0-9_.-]{1,32}):([A-Za-z0-9_.-]{1,32})$`)

// readPayload is the prompt and the option that a button's data names; false: the button is none of ours.
func readPayload(data string) (prompt, option string, ok bool) {
	ids := buttonData.FindStringSubmatch(data)
	if ids == nil || len(data) > maxPayload {
		return "", "", false
	}
	return ids[1], ids[2], true
}

// Prompt implements platforms.Prompter. Its text is sent as Send does.
func (p *Bot) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	buttons, err := keyboard(a.PromptID, a.Options)
	if err != nil {
		return relay.Result{}, err
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(relay.Send{ReplyTo: a.ReplyTo, Meta: a.Meta})
	l.buttons = buttons
	return p.turns.Post(ctx, a.Chat, l)
}

// button is an InlineKeyboardButton.
type button struct {
	Text  string `json:"text"`
	Data  string `json:"callback_data"`
	Style string `json:"style,omitempty"` // primary, success or danger; servers that do not know it ignore it
}

// keyboard are the buttons of a prompt, as a message's reply_markup.
func keyboard(prompt string, options []relay.PromptOption) (string, error) {
	var all []button
	row, known := inARow, make(map[string]bool)
	for _, o := range options {
		b := button{Text: cmp.Or(strings.Join(strings.Fields(markdown.Clean(o.Label)), " "), o.ID), Data: payloadMark + prompt + ":" + o.ID}
		if _, _, ok := readPayload(b.Data); !ok {
			return "", unsupportedPrompt(fmt.Sprintf("an id does not fit: [A-Za-z0-9_.-]{1,32}, and %d bytes a button", maxPayload))
		}
		if known[o.ID] {
			return "", unsupportedPrompt("two options have one id")
		}
		known[o.ID] = true
		switch o.Style {
		case "primary", "success", "danger":
			b.Style = o.Style
		}
		if utf8.RuneCountInString(b.Text) > wideLabel {
			row = 1
		}
		all = append(all, b)
	}
	switch n := len(all); {
	case n == 0:
		return "", unsupportedPrompt("no options")
	case n > maxButtons:
		return "", unsupportedPrompt(fmt.Sprintf("more than %d options", maxButtons))
	}
	var k replyMarkup
	for len(all) > 0 {
		n := min(row, len(all))
		k.Rows, all = append(k.Rows, all[:n]), all[n:]
	}
	raw, _ := json.Marshal(k) // strings: cannot fail
	return string(raw), nil
}

// unsupportedPrompt makes the gateway ask in text instead.
func unsupportedPrompt(why string) *relay.ActionError {
	err := relay.Unsupported(relay.OpPrompt)
	err.Public += ": " + why
	return err
}

// Unprompt implements platforms.Prompter. A message that is gone, or that stayed in a chat's past, has no buttons.
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
