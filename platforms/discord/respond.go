package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// hooks answers interactions, each through its own web hook.
type hooks struct {
	*writer
	// Set once, by open.
	bot       relay.BotID
	log       *slog.Logger
	memory    *memory // knows the application's id
	callbacks *callbacks
	asides    chan aside // capacity maxWhispers
}

// Respond implements platforms.Responder. The first part of a first answer replaces the placeholder ("is
// thinking…"). Follow-ups have no nonce, so one with an unknown outcome is not repeated. If the token ends in the
// middle of a long answer, the rest goes into the chat as ordinary messages.
func (h *hooks) Respond(ctx context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	l, err := h.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	return h.respond(ctx, c, a.Chat, l, first)
}

// respond posts a letter through c.
func (h *hooks) respond(ctx context.Context, c platforms.Capability, chat relay.ChatID, l *letter, first bool) (relay.Result, error) {
	if err := h.answerable(ctx, c); err != nil { // before it takes the chat's turn, so that others may write meanwhile
		return relay.Result{}, err
	}
	return h.turns.Post(ctx, chat, &hookLetter{letter: *l, h: h, c: c, first: first})
}

// hookLetter is a letter that goes through a web hook.
type hookLetter struct {
	letter
	h     *hooks
	c     platforms.Capability
	first bool // the next part replaces the placeholder
	begun bool // a part was sent through the web hook
	gone  bool // the token expired after that: the rest goes into the chat
}

// Send implements sender.Text.
func (a *hookLetter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if a.gone {
		return a.letter.Send(ctx, t)
	}
	body := a.w.message(a.parts[0])
	body.Buttons = a.under()
	r := request{method: http.MethodPost, endpoint: a.h.hook(a.c), body: body}
	if a.first {
		r.method, r.endpoint, r.again = http.MethodPatch, a.h.original(a.c), true
	}
	var m posted
	err := a.h.wield(ctx, t, a.c, r, &m)
	switch {
	case err == nil:
		a.first, a.begun, a.parts = false, true, a.parts[1:]
	case a.first && refusedWith(err, discordgo.ErrCodeUnknownMessage): // somebody has removed it
		a.first = false
		return a.Send(ctx, t)
	case a.begun && errors.Is(err, platforms.ErrCapabilityGone):
		a.gone = true
		return a.Send(ctx, t)
	}
	return relay.MessageID(m.ID), err
}

// Thinking implements platforms.Responder: Discord marks a message that says the bot is thinking.
func (h *hooks) Thinking(ctx context.Context, c platforms.Capability) (bool, error) {
	if err := h.answerable(ctx, c); err != nil {
		return false, err
	}
	var m struct {
		Flags discordgo.MessageFlags `json:"flags"`
	}
	err := h.wield(ctx, h.turns.Outside(), c, request{method: http.MethodGet, endpoint: h.original(c), again: true}, &m)
	switch {
	case refusedWith(err, discordgo.ErrCodeUnknownMessage): // somebody has removed it
		return false, nil
	case err != nil:
		return false, explained(err)
	}
	return m.Flags&discordgo.MessageFlagsLoading != 0, nil
}

// Discard implements platforms.Responder: it deletes the placeholder.
func (h *hooks) Discard(ctx context.Context, c platforms.Capability) error {
	if !c.Placeholder {
		return nil
	}
	return h.rework(ctx, c, request{method: http.MethodDelete})
}

// Settle implements platforms.Responder: it removes the buttons from the first answer, which after a press is the
// message with the pressed button.
func (h *hooks) Settle(ctx context.Context, c platforms.Capability) error {
	return h.rework(ctx, c, request{method: http.MethodPatch, body: map[string]any{"components": []any{}}})
}

// rework carries out r on the first answer to an interaction. If the answer is gone already, rework succeeds.
func (h *hooks) rework(ctx context.Context, c platforms.Capability, r request) error {
	if err := h.answerable(ctx, c); err != nil {
		return err
	}
	r.endpoint, r.again = h.original(c), true
	err := h.wield(ctx, h.turns.Outside(), c, r, nil)
	if err != nil && !refusedWith(err, discordgo.ErrCodeUnknownMessage) {
		return explained(err)
	}
	return nil
}

// hook returns the address of the web hook that accepts a capability's token.
func (h *hooks) hook(c platforms.Capability) string {
	return discordgo.EndpointWebhookToken(h.memory.application(h.bot), url.PathEscape(c.Token.RevealString()))
}

// original returns the address of the first answer to an interaction.
func (h *hooks) original(c platforms.Capability) string { return h.hook(c) + "/messages/@original" }

// answerable waits for the end of the call-back that makes c's token known to Discord. If Discord refused that
// call-back, the error wraps platforms.ErrCapabilityGone.
func (h *hooks) answerable(ctx context.Context, c platforms.Capability) error {
	refused, err := h.callbacks.wait(ctx, c.ID)
	if refused {
		return gone(nil)
	}
	return err
}

// wield carries out r through the web hook of c. If Discord refuses its token, the error wraps
// platforms.ErrCapabilityGone, and no further request uses the token. Shortly after the call-back a 404 is tried again:
// Discord may not know the web hook and its message yet.
func (h *hooks) wield(ctx context.Context, t *sender.Turn, c platforms.Capability, r request, out any) error {
	err := h.call(ctx, t, r, out)
	for answered(err, http.StatusNotFound) && h.callbacks.fresh(c.ID) {
		if !backoff.Pause(ctx, lagTry) {
			return sender.NotSentIn(ctx)
		}
		err = h.call(ctx, t, r, out)
	}
	switch f := httpcall.FaultOf(err); {
	case f.Sent != httpcall.Refused, f.Code == discordgo.ErrCodeUnknownMessage:
		return err
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusNotFound,
		f.Code == discordgo.ErrCodeInvalidWebhookTokenProvided, f.Code == discordgo.ErrCodeUnknownWebhook:
		h.rest.Bury(r.endpoint, f)
		return gone(err)
	}
	return err
}

// gone returns the error for a token that Discord no longer accepts. It wraps platforms.ErrCapabilityGone, and err.
func gone(err error) *relay.ActionError {
	out := relay.Refused("the interaction has expired", platforms.ErrCapabilityGone)
	if err != nil {
		out.Err = fmt.Errorf("%w: %w", platforms.ErrCapabilityGone, err)
	}
	return out
}
