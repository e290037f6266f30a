// Package echo is a small gateway that answers every message with itself. `demo` runs it against
// the connector's own door, and the tests drive it; it speaks the wire a real gateway speaks,
// with a real token over a real socket, and knows nothing of the connector's insides.
package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// tokenLife is how long a minted token is good for; real gateways use the same.
const tokenLife = 5 * time.Minute

// ErrRefused ends Run: the connector closed with 4401, the credential is dead.
var ErrRefused = errors.New("the connector refuses the credential")

// Gateway is one gateway. Fill the exported fields, then Run it once.
type Gateway struct {
	URL    string // of the door: ws://host:port/relay
	ID     relay.GatewayID
	Secret relay.Secret
	// Identities are said in one hello each; at least one.
	Identities []relay.Bot
	// Observe, when not nil, is called with every frame on Run's goroutine: sent or received.
	Observe func(sent bool, f wire.Frame)

	requests int
}

// Run dials, says hello, answers until ctx ends (then it returns nil) or the connection does. It
// does not dial again: the caller decides.
func (g *Gateway) Run(ctx context.Context) error {
	bearer := token.Mint(g.ID, g.Secret, time.Now().Add(tokenLife))
	conn, _, err := websocket.Dial(ctx, g.URL, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + bearer}},
	})
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.CloseNow() //nolint:errcheck // the connection is over either way
	conn.SetReadLimit(wire.MaxFrame)

	// The manifest, though it is empty, says that this is no gateway of June 2026, which would be waited for.
	for _, b := range g.Identities {
		if err := g.send(ctx, conn, wire.Hello{Platform: b.Platform, BotID: b.ID, Manifest: []json.RawMessage{}}); err != nil {
			return err
		}
	}
	var split wire.Splitter
	for {
		_, message, err := conn.Read(ctx)
		switch {
		case ctx.Err() != nil:
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return nil
		case websocket.CloseStatus(err) == 4401:
			return ErrRefused
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
		lines, err := split.Feed(message)
		if err != nil {
			return fmt.Errorf("split: %w", err)
		}
		for _, line := range lines {
			f, err := wire.DecodeFromConnector(line)
			if err != nil {
				return fmt.Errorf("decode: %w", err)
			}
			if err := g.handle(ctx, conn, f); err != nil {
				return err
			}
		}
	}
}

// handle answers a message first and acknowledges it then, as real gateways do.
func (g *Gateway) handle(ctx context.Context, conn *websocket.Conn, f wire.Frame) error {
	if g.Observe != nil {
		g.Observe(false, f)
	}
	in, ok := f.(wire.Inbound)
	if !ok {
		return nil
	}
	g.requests++
	answer := wire.Outbound{Request: relay.Request{
		ID: relay.RequestID(strconv.Itoa(g.requests)), Platform: in.Event.Source.Platform,
		Action: relay.Send{
			Chat: in.Event.Source.ChatID, Content: "echo: " + in.Event.Text, ReplyTo: in.Event.MessageID,
			Meta: relay.Metadata{ThreadID: in.Event.Source.ThreadID, Scope: in.Event.Source.Scope, Notify: true},
		},
	}}
	if err := g.send(ctx, conn, answer); err != nil || in.Buffer == "" {
		return err
	}
	return g.send(ctx, conn, wire.InboundAck{Buffer: in.Buffer})
}

func (g *Gateway) send(ctx context.Context, conn *websocket.Conn, f wire.Frame) error {
	line, err := wire.Encode(f)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := conn.Write(ctx, websocket.MessageText, line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if g.Observe != nil {
		g.Observe(true, f)
	}
	return nil
}
