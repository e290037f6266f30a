package slack

import (
	"context"
	"net/http"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// kindResponse is the kind of the capability that comes with a slash command: an address at which the command can be
// answered five times in half an hour, whether or not the bot is in the channel.
const kindResponse = "slack.response_url"

// Respond implements platforms.Responder. Where the bot is in the channel, its answer is an ordinary message, which the
// bot can edit. Elsewhere the answer is sent to the command's address, and has no id.
func (w *writer) Respond(ctx context.Context, c platforms.Capability, a relay.Send, _ bool) (relay.Result, error) {
	l, err := w.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.thread, l.through = threadOf(a.Meta), &c
	return w.turns.Post(ctx, a.Chat, l)
}

// answerOutside is an answer through an address.
type answerOutside struct {
	Text         string `json:"text"`
	ResponseType string `json:"response_type"`
	UnfurlLinks  bool   `json:"unfurl_links"`
	UnfurlMedia  bool   `json:"unfurl_media"`
}

// respond sends the next part to the address of the slash command. Everybody in the channel reads it, as with an
// ordinary message; in the direct messages of two people, only the one who typed the command reads it.
func (l *letter) respond(ctx context.Context, t *sender.Turn) error {
	shows, readers := l.w.previews.Allow(l.parts[0]), "in_channel"
	if direct(string(t.Chat)) {
		readers = "ephemeral"
	}
	err := t.Do(ctx, sender.Call{Do: func(ctx context.Context) error {
		return l.w.rest.Respond(ctx, l.through.Token, answerOutside{l.parts[0], readers, shows, shows})
	}})
	switch f := httpcall.FaultOf(err); {
	case err == nil:
		l.parts, l.begun = l.parts[1:], true
	case rest.RefusedWith(err, "used_url", "expired_url", "no_such_url", "invalid_url", "no_active_hooks"), f.Refused(http.StatusNotFound), f.Refused(http.StatusGone):
		return relay.Refused("the command can no longer be answered", platforms.ErrCapabilityGone)
	}
	return err
}

// Thinking implements platforms.Responder. There is no placeholder.
func (w *writer) Thinking(context.Context, platforms.Capability) (bool, error) { return false, nil }

// Discard implements platforms.Responder. There is no placeholder.
func (w *writer) Discard(context.Context, platforms.Capability) error { return nil }

// Settle implements platforms.Responder. A press brings no capability: Unprompt removes its buttons.
func (w *writer) Settle(context.Context, platforms.Capability) error { return nil }
