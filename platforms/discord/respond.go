package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Respond implements platforms.Responder. The first part of a first answer replaces the placeholder ("is
// thinking…"). Follow-ups have no nonce, so one with an unknown outcome is not repeated. If the token ends in the
// middle of a long answer, the rest goes into the chat as ordinary messages.
func (p *Bot) Respond(ctx context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	return p.respond(ctx, c, a.Chat, l, first)
}

// respond posts a letter through c.
func (p *Bot) respond(ctx context.Context, c platforms.Capability, chat relay.ChatID, l *letter, first bool) (relay.Result, error) {
	if err := p.answerable(ctx, c); err != nil { // before the chat's turn, which others may have meanwhile
		return relay.Result{}, err
	}
	return p.turns.Post(ctx, chat, &hookLetter{letter: *l, c: c, first: first})
}

// hookLetter is a letter that goes through a web hook.
type hookLetter struct {
	letter
	c     platforms.Capability
	first bool // the next part replaces the placeholder
	begun bool // parts were sent
	gone  bool // the token has ended in the middle
}

func (a *hookLetter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	if a.gone {
		return a.letter.Send(ctx, t)
	}
	body := a.p.message(a.parts[0])
	body.Buttons = a.under()
	r := request{method: http.MethodPost, endpoint: a.p.hook(a.c), body: body}
	if a.first {
		r.method, r.endpoint, r.again = http.MethodPatch, a.p.original(a.c), true
	}
	var m posted
	err := a.p.wield(ctx, t, a.c, r, &m)
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

// Thinking implements platforms.Responder: Discord marks the message that says so.
func (p *Bot) Thinking(ctx context.Context, c platforms.Capability) (bool, error) {
	if err := p.answerable(ctx, c); err != nil {
		return false, err
	}
	var m struct {
		Flags discordgo.MessageFlags `json:"flags"`
	}
	err := p.wield(ctx, p.turns.Outside(), c, request{method: http.MethodGet, endpoint: p.original(c), again: true}, &m)
	switch {
	case refusedWith(err, discordgo.ErrCodeUnknownMessage): // somebody has removed it
		return false, nil
	case err != nil:
		return false, explained(err)
	}
	return m.Flags&discordgo.MessageFlagsLoading != 0, nil
}

// Discard implements platforms.Responder.
func (p *Bot) Discard(ctx context.Context, c platforms.Capability) error {
	if !c.Placeholder {
		return nil
	}
	return p.rework(ctx, c, request{method: http.MethodDelete})
}

// Settle implements platforms.Responder.
func (p *Bot) Settle(ctx context.Context, c platforms.Capability) error {
	return p.rework(ctx, c, request{method: http.MethodPatch, body: map[string]any{"components": []any{}}})
}

// rework carries out r on the first answer to an interaction. One that is gone already is success.
func (p *Bot) rework(ctx context.Context, c platforms.Capability, r request) error {
	if err := p.answerable(ctx, c); err != nil {
		return err
	}
	r.endpoint, r.again = p.original(c), true
	err := p.wield(ctx, p.turns.Outside(), c, r, nil)
	if err != nil && !refusedWith(err, discordgo.ErrCodeUnknownMessage) {
		return explained(err)
	}
	return nil
}

// hook is the web hook through which a capability is wielded.
func (p *Bot) hook(c platforms.Capability) string {
	return discordgo.EndpointWebhookToken(p.Application(), url.PathEscape(c.Token.RevealString()))
}

// original is the first answer to an interaction.
func (p *Bot) original(c platforms.Capability) string { return p.hook(c) + "/messages/@original" }

// answerable waits for the end of the call-back that makes c's token known to Discord.
func (p *Bot) answerable(ctx context.Context, c platforms.Capability) error {
	refused, err := p.callbacks.wait(ctx, c.ID)
	if refused {
		return gone(nil)
	}
	return err
}

// wield is call through a web hook. When Discord refuses its token, the error wraps platforms.ErrCapabilityGone,
// and no further request uses it. Just after the call-back a 404 is tried again: Discord may not know the web hook
// and its message yet.
func (p *Bot) wield(ctx context.Context, t *sender.Turn, c platforms.Capability, r request, out any) error {
	err := p.call(ctx, t, r, out)
	for answered(err, http.StatusNotFound) && p.callbacks.fresh(c.ID) {
		if !backoff.Pause(ctx, lagTry) {
			return sender.NotSentIn(ctx)
		}
		err = p.call(ctx, t, r, out)
	}
	switch f := httpcall.FaultOf(err); {
	case f.Sent != httpcall.Refused, f.Code == discordgo.ErrCodeUnknownMessage:
		return err
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusNotFound,
		f.Code == discordgo.ErrCodeInvalidWebhookTokenProvided, f.Code == discordgo.ErrCodeUnknownWebhook:
		p.rest.Bury(r.endpoint, f)
		return gone(err)
	}
	return err
}

func gone(err error) *relay.ActionError {
	out := relay.Refused("the interaction has expired", platforms.ErrCapabilityGone)
	if err != nil {
		out.Err = fmt.Errorf("%w: %w", platforms.ErrCapabilityGone, err)
	}
	return out
}
