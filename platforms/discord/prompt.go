package discord

import (
	"cmp"
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxButtons is how many buttons a message may have, and maxInRow how many of them stand in a row.
	maxButtons = 25
	maxInRow   = 5
	// maxLabel is how many code points a button's text may have.
	maxLabel = 80
)

var (
	_ platforms.Prompter        = (*Bot)(nil)
	_ platforms.PromptResponder = (*Bot)(nil)
)

// buttonRow is a row of buttons. The library's types marshal themselves, with members that we never set.
type buttonRow struct {
	Type    discordgo.ComponentType `json:"type"`
	Buttons []button                `json:"components"`
}

type button struct {
	Type     discordgo.ComponentType `json:"type"`
	Style    discordgo.ButtonStyle   `json:"style"`
	Label    string                  `json:"label"`
	CustomID string                  `json:"custom_id"`
}

// Prompt implements platforms.Prompter. It is a Send whose last part has the buttons.
func (p *Bot) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	l, err := p.question(a)
	if err != nil {
		return relay.Result{}, err
	}
	l.reply = referTo(a.ReplyTo)
	return p.turns.Post(ctx, a.Chat, l)
}

// RespondPrompt implements platforms.PromptResponder: it is Respond, with the buttons on the last part.
func (h *hooks) RespondPrompt(ctx context.Context, c platforms.Capability, a relay.Prompt, first bool) (relay.Result, error) {
	l, err := h.question(a)
	if err != nil {
		return relay.Result{}, err
	}
	return h.respond(ctx, c, a.Chat, l, first)
}

// question returns a prompt as a letter.
func (w *writer) question(a relay.Prompt) (*letter, error) {
	if err := a.Misfit(maxButtons); err != nil {
		return nil, err
	}
	l, err := w.letter(a.Content)
	if err != nil {
		return nil, err
	}
	l.buttons = buttonsOf(a)
	return l, nil
}

// buttonsOf returns the rows of a prompt's buttons.
func buttonsOf(a relay.Prompt) (rows []buttonRow) {
	for n, o := range a.Options {
		if n%maxInRow == 0 {
			rows = append(rows, buttonRow{Type: discordgo.ActionsRowComponent})
		}
		last := &rows[len(rows)-1]
		last.Buttons = append(last.Buttons, button{
			Type: discordgo.ButtonComponent, Style: styleOf(o.Style), Label: cmp.Or(markdown.Label(dialect.Clean(o.Label), maxLabel), o.ID), CustomID: relay.PromptData(a.PromptID, o.ID),
		})
	}
	return rows
}

func styleOf(style string) discordgo.ButtonStyle {
	switch style {
	case "primary":
		return discordgo.PrimaryButton
	case "success":
		return discordgo.SuccessButton
	case "danger":
		return discordgo.DangerButton
	}
	return discordgo.SecondaryButton
}

// Unprompt implements platforms.Prompter. A message that is gone has no buttons. Unprompt waits for a turn, because its
// call counts against the chat's rate, but leaves the turn before the call: others may write to the chat meanwhile.
func (p *Bot) Unprompt(ctx context.Context, chat relay.ChatID, m relay.MessageID) error {
	if !rest.IsID(string(m)) {
		return errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, chat, ratelimit.Signal)
	if err != nil {
		return err
	}
	t.Leave()
	err = p.call(ctx, t, request{
		method: http.MethodPatch, endpoint: discordgo.EndpointChannelMessage(string(chat), string(m)), again: true,
		body: map[string]any{"components": []any{}},
	}, nil)
	if err != nil && !answered(err, http.StatusNotFound) {
		return explained(err)
	}
	return nil
}
