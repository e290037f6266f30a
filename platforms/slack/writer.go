package slack

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// writer is what a bot says.
type writer struct {
	// Set once, by newWriter.
	previews platforms.Previews
}

func newWriter(_ platforms.Options, opts platforms.Settings) *writer {
	return &writer{previews: opts.Previews()}
}

// Send implements platforms.Bot.
func (w *writer) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}
