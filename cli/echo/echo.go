// Package echo is a small gateway that answers every message with the same text. If it is told to, it also shows what
// else gateways do. `demo` and the tests run it. It connects like a real gateway, with a real token over a real socket,
// and uses none of the connector's insides.
package echo

import (
	"context"
	"errors"
	"sync"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// Gateway is one gateway. Fill the exported fields, then Run it once.
type Gateway struct {
	client.Client
	// Shows: the gateway also does what gateways have done since August 2026: it fetches files and sends them back, and
	// offers buttons to edit a message and to react. Each of its answers begins with a message.
	Shows bool
}

// Run answers until ctx ends (then it returns nil) or the credential is refused.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &answers{Client: &g.Client, chats: make(map[relay.Chat]chat)}
	var wg sync.WaitGroup
	defer wg.Wait()
	var ended error
	wg.Go(func() {
		defer cancel()
		ended = g.Client.Run(ctx)
	})
	for {
		f, err := g.Next(ctx)
		if err == nil {
			err = g.handle(ctx, a, f)
		}
		if err != nil && ctx.Err() != nil {
			wg.Wait()
			return ended
		}
	}
}

// handle answers a message and then acknowledges it, as real gateways do. If the connection is lost during the answer,
// handle does not repeat its request: the connector delivers the message again.
func (g *Gateway) handle(ctx context.Context, a *answers, f wire.Frame) error {
	in, ok := f.(wire.Inbound)
	if !ok {
		return nil
	}
	answer := a.repeat
	if g.Shows {
		answer = a.show
	}
	if err := answer(ctx, in.Event); err != nil && !refused(err) {
		return err
	}
	return g.Acknowledge(ctx, in.Buffer)
}

// refused reports whether err is the connector's answer that it did not do what was asked.
func refused(err error) bool {
	_, ok := errors.AsType[*relay.ActionError](err)
	return ok
}
