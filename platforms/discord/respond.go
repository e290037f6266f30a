package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Respond implements platforms.Responder. The first part of a first answer replaces what the person
// sees ("is thinking…"); everything else follows it. Follow-ups have no nonce, so one with an
// unknown outcome is not repeated. If the token ends in the middle of a long answer, the rest goes
// into the chat as ordinary messages.
func (p *Platform) Respond(ctx context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	if err := p.answerable(ctx, c); err != nil { // waited for outside of the gate: the chat is open to others
		return relay.Result{}, err
	}
	t, err := p.enter(ctx, a.Chat, pace.Message, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()
	ids, err := t.answer(ctx, l, c, first)
	if len(ids) > 0 && errors.Is(err, platforms.ErrCapabilityGone) {
		var more []relay.MessageID
		more, err = t.post(ctx, l, "")
		ids = append(ids, more...)
	}
	if err != nil {
		return relay.Result{}, l.broken(ids, err)
	}
	return outcome(ids), nil
}

// answer sends the letter's parts through a web hook and returns the ids of those that stand.
func (t *turn) answer(ctx context.Context, l *letter, c platforms.Capability, first bool) (ids []relay.MessageID, err error) {
	hook := t.p.hookPath(c)
	for len(l.parts) > 0 {
		r := request{method: http.MethodPost, path: hook, body: message{Content: l.parts[0], Mentions: t.p.mentions()}}
		if first {
			r.method, r.path, r.again = http.MethodPatch, hook+originalPath, true
		}
		var m posted
		err := t.wield(ctx, c, r, &m)
		switch {
		case err == nil:
			ids = append(ids, relay.MessageID(m.ID))
			first, l.parts = false, l.parts[1:]
		case first && refusedWith(err, codeUnknownMessage): // somebody has removed it
			first = false
		case len(ids) > 0 && refusedWith(err, codeEmptyMessage): // nothing anybody could see
			l.parts = l.parts[1:]
		default:
			return ids, err
		}
	}
	return ids, nil
}

// Discard implements platforms.Responder. A placeholder that is gone already is success.
func (p *Platform) Discard(ctx context.Context, c platforms.Capability) error {
	if !c.Placeholder {
		return nil
	}
	if err := p.answerable(ctx, c); err != nil {
		return err
	}
	t := &turn{p: p}
	err := t.wield(ctx, c, request{method: http.MethodDelete, path: p.hookPath(c) + originalPath, again: true}, nil)
	if err != nil && !refusedWith(err, codeUnknownMessage) {
		return explained(err)
	}
	return nil
}

// Settle implements platforms.Responder: it takes the buttons off the message they were pressed on.
// A slash command has none.
func (p *Platform) Settle(ctx context.Context, c platforms.Capability) error {
	if c.Placeholder {
		return nil
	}
	if err := p.answerable(ctx, c); err != nil {
		return err
	}
	t := &turn{p: p}
	err := t.wield(ctx, c, request{
		method: http.MethodPatch, path: p.hookPath(c) + originalPath, again: true,
		body: map[string]any{"components": []any{}},
	}, nil)
	if err != nil && !refusedWith(err, codeUnknownMessage) {
		return explained(err)
	}
	return nil
}

// originalPath is the first answer to an interaction, behind its web hook's path.
const originalPath = "/messages/@original"

// hookPath is where a capability is wielded.
func (p *Platform) hookPath(c platforms.Capability) string {
	return "/webhooks/" + p.application() + "/" + url.PathEscape(c.Token.RevealString())
}

// answerable waits for the end of the call-back that makes c's token known to Discord.
func (p *Platform) answerable(ctx context.Context, c platforms.Capability) error {
	refused, err := p.callbacks.wait(ctx, c.ID)
	if refused {
		return gone(nil)
	}
	return err
}

// wield is call through a web hook. Discord's no to its token is final: the error wraps
// platforms.ErrCapabilityGone, and nothing more is asked of it. Only just after the call-back a 404
// is not: then it is tried again, since Discord may learn of the web hook and of its message later.
func (t *turn) wield(ctx context.Context, c platforms.Capability, r request, out any) error {
	route := routeOf(r.method, r.path)
	if t.p.limits.buried(route) {
		return gone(nil)
	}
	err := t.call(ctx, r, out)
	for answered(err, http.StatusNotFound) && t.p.callbacks.fresh(c.ID) {
		if !backoff.Pause(ctx, lagTry) {
			return notSentIn(ctx)
		}
		err = t.call(ctx, r, out)
	}
	hideToken(err, r.path)
	var ae *apiError
	if !errors.As(err, &ae) || ae.Sent != sentRefused {
		return err
	}
	switch {
	case ae.Code == codeUnknownMessage:
		return err
	case ae.Status == http.StatusUnauthorized, ae.Status == http.StatusNotFound,
		ae.Code == codeInvalidToken, ae.Code == codeUnknownWebhook:
		t.p.limits.bury(route)
		return gone(err)
	}
	return err
}

// hideToken takes the interaction's token, which stands in the path, out of err.
func hideToken(err error, path string) {
	var ae *apiError
	if segments := strings.Split(path, "/"); errors.As(err, &ae) && len(segments) > 3 && segments[3] != "" {
		ae.Message = strings.ReplaceAll(ae.Message, segments[3], relay.Redacted)
	}
}

func gone(err error) *relay.ActionError {
	out := &relay.ActionError{Outcome: relay.NotSent, Public: "the interaction has expired", Err: platforms.ErrCapabilityGone}
	if err != nil {
		out.Err = fmt.Errorf("%w: %w", platforms.ErrCapabilityGone, err)
	}
	return out
}
