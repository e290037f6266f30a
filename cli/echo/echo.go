// Package echo is a small gateway that answers every message with itself, and, if it is told to, shows what else
// gateways do. `demo` runs it against the connector's own door, and the tests drive it; it speaks the wire a real
// gateway speaks, with a real token over a real socket, and knows nothing of the connector's insides.
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
	// Shows: it also does what gateways have done since August 2026: it fetches files and sends them back, and offers, by
	// buttons, to edit and to react. Whatever it answers begins with a message.
	Shows bool

	// Of Run.
	conn     *websocket.Conn
	requests int
	results  map[relay.RequestID]func(context.Context, relay.Result) error // what follows when a request has worked
	chats    map[relay.Chat]chat
}

// Run dials, says hello, answers until ctx ends (then it returns nil) or the connection does. It
// does not dial again: the caller decides.
func (g *Gateway) Run(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, g.URL, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {g.bearer()}}})
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer conn.CloseNow() //nolint:errcheck // the connection is over either way
	conn.SetReadLimit(wire.MaxFrame)
	g.conn, g.results, g.chats = conn, make(map[relay.RequestID]func(context.Context, relay.Result) error), make(map[relay.Chat]chat)

	// The manifest, though it is empty, says that this is no gateway of June 2026, which would be waited for.
	for _, b := range g.Identities {
		if err := g.send(ctx, wire.Hello{Platform: b.Platform, BotID: b.ID, Manifest: []json.RawMessage{}}); err != nil {
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
			if err := g.handle(ctx, f); err != nil {
				return err
			}
		}
	}
}

// bearer proves who the gateway is, for some minutes.
func (g *Gateway) bearer() string {
	return "Bearer " + token.Mint(g.ID, g.Secret, time.Now().Add(tokenLife))
}

// handle answers a message first and acknowledges it then, as real gateways do.
func (g *Gateway) handle(ctx context.Context, f wire.Frame) error {
	if g.Observe != nil {
		g.Observe(false, f)
	}
	switch f := f.(type) {
	case wire.OutboundResult:
		then := g.results[f.ID]
		delete(g.results, f.ID)
		if then != nil && f.Err == nil {
			return then(ctx, f.Result)
		}
	case wire.Inbound:
		if err := g.answer(ctx, f.Event); err != nil || f.Buffer == "" {
			return err
		}
		return g.send(ctx, wire.InboundAck{Buffer: f.Buffer})
	}
	return nil
}

// answer answers an event with itself, unless there is more to show.
func (g *Gateway) answer(ctx context.Context, ev relay.Event) error {
	if g.Shows {
		return g.show(ctx, ev)
	}
	return g.says(ctx, ev, "echo: "+ev.Text, nil)
}

// says sends a message to where the event came from. then, when not nil, follows when it stands.
func (g *Gateway) says(ctx context.Context, ev relay.Event, text string, then func(context.Context, relay.Result) error) error {
	m := meta(ev)
	m.Notify = true
	return g.asks(ctx, ev, relay.Send{Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID, Meta: m}, then)
}

// asks sends a request about where the event came from.
func (g *Gateway) asks(ctx context.Context, ev relay.Event, a relay.Action, then func(context.Context, relay.Result) error) error {
	g.requests++
	id := relay.RequestID(strconv.Itoa(g.requests))
	if then != nil {
		g.results[id] = then
	}
	return g.send(ctx, wire.Outbound{Request: relay.Request{ID: id, Platform: ev.Source.Platform, Action: a}})
}

// meta is what is said beside an action where the event came from.
func meta(ev relay.Event) relay.Metadata {
	return relay.Metadata{ThreadID: ev.Source.ThreadID, Scope: ev.Source.Scope}
}

func (g *Gateway) send(ctx context.Context, f wire.Frame) error {
	line, err := wire.Encode(f)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := g.conn.Write(ctx, websocket.MessageText, line); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if g.Observe != nil {
		g.Observe(true, f)
	}
	return nil
}
