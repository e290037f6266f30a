package echo

import (
	"context"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
)

// sender sends messages and requests to the chat of an event.
type sender struct {
	*client.Client
	requests int // how many requests it has sent
}

// repeat answers an event with itself.
func (v *sender) repeat(ctx context.Context, ev relay.Event) error {
	return v.sendText(ctx, ev, "echo: "+ev.Text)
}

// textFor makes a message for the chat of the event.
func textFor(ev relay.Event, text string) relay.Send {
	m := meta(ev)
	m.Notify = true
	return relay.Send{Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID, Meta: m}
}

// sendText sends a message to the chat of the event.
func (v *sender) sendText(ctx context.Context, ev relay.Event, text string) error {
	return v.request(ctx, ev, textFor(ev, text))
}

// request sends a request about the chat of the event.
func (v *sender) request(ctx context.Context, ev relay.Event, a relay.Action) error {
	v.requests++
	return v.Ask(ctx, ev.Source.Platform, a)
}

// meta returns the metadata of an action in the chat of the event.
func meta(ev relay.Event) relay.Metadata {
	return relay.Metadata{ThreadID: ev.Source.ThreadID, Scope: ev.Source.Scope}
}
