package echo

import (
	"context"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
)

// voice sends messages and requests to the chat of an event.
type voice struct {
	*client.Client
	asked int // how many requests it has sent
}

// repeat answers an event with itself.
func (v *voice) repeat(ctx context.Context, ev relay.Event) error {
	return v.says(ctx, ev, "echo: "+ev.Text)
}

// said makes a message for the chat of the event.
func said(ev relay.Event, text string) relay.Send {
	m := meta(ev)
	m.Notify = true
	return relay.Send{Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID, Meta: m}
}

// says sends a message to the chat of the event.
func (v *voice) says(ctx context.Context, ev relay.Event, text string) error {
	return v.asks(ctx, ev, said(ev, text))
}

// asks sends a request about the chat of the event.
func (v *voice) asks(ctx context.Context, ev relay.Event, a relay.Action) error {
	v.asked++
	return v.Ask(ctx, ev.Source.Platform, a)
}

// meta returns the metadata of an action in the chat of the event.
func meta(ev relay.Event) relay.Metadata {
	return relay.Metadata{ThreadID: ev.Source.ThreadID, Scope: ev.Source.Scope}
}
