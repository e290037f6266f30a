// Package client is a gateway's end of the wire. It dials the connector, says hello, dials again when the connection is
// lost, and hands out the frames that arrive. It does not know what the gateway is for, and uses none of the
// connector's insides.
//
// Invariants:
//
//  1. Frames that Next returns came by the newest connection. Frames of a lost connection that nobody has read yet come
//     again by the next connection.
//  2. An action is sent once. If the connection is lost before the result arrives, nobody knows whether the action was
//     carried out.
//  3. A refused credential ends Run, after one more try with a fresh token.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const (
	// tokenLife is how long a minted token is valid. Real gateways use the same time.
	tokenLife = 5 * time.Minute
	// dialTime bounds one try to connect, writeTime one frame on its way out.
	dialTime, writeTime = 30 * time.Second, 30 * time.Second
	// idleTime is how long GoingIdle waits for its answer.
	idleTime = 10 * time.Second
	// maxQueue is how many frames may wait for Next. The connector sends only a few that are not acknowledged.
	maxQueue = 1024
	// unauthorized is the status with which the connector closes when it refuses a credential.
	unauthorized = 4401
	// expired is the reason of that close if only the token has ended, because the two machines' clocks differ.
	expired = "expired"
)

var (
	// ErrRefused is the error of Run if the connector refuses the credential for good.
	ErrRefused = errors.New("the connector refuses the credential")
	// ErrLost is the error of Act if the connection is lost before the result arrives.
	ErrLost = errors.New("the connection was lost before the result came")
	// ErrNoLink is the error of Act and Ask if there is no connection within LinkWait, perhaps joined with the error of
	// their context. The request was not sent.
	ErrNoLink = errors.New("there is no connection to the connector")
)

// Client is one gateway. Fill the exported fields, call Run once, and call the other methods while it runs, from any
// goroutine.
type Client struct {
	Credential
	// Manifest are the slash commands, in Discord's form.
	Manifest []json.RawMessage
	// OneByOne: the gateway acknowledges a delivery only when it is done with that message, so the connector joins no
	// messages to one delivery for it.
	OneByOne bool
	// Pause is how long the client waits before it dials again, doubled each time up to half a minute; 0: a second.
	Pause time.Duration
	// LinkWait is how long an action waits for a connection; 0: as long as its context lasts.
	LinkWait time.Duration
	// Log gets a line for each connection and each failed try; nil: no log.
	Log *slog.Logger
	// Observe, when not nil, is called with every frame, sent or received, one at a time.
	Observe func(sent bool, f wire.Frame)

	observing sync.Mutex

	mu       sync.Mutex    // guards the fields below
	link     *link         // nil: there is no connection
	changed  chan struct{} // closed by turn, for the calls of when that wait; nil: none waits
	requests int           // how many requests got an id so far
}

// link is one connection.
type link struct {
	conn    *websocket.Conn
	lost    chan struct{}                                // closed when the connection is lost
	queue   []wire.Frame                                 // the frames for Next
	results map[relay.RequestID]chan wire.OutboundResult // of the requests that wait; each has room for one result
	idle    chan struct{}                                // closed when going_idle is acknowledged
}

// Run keeps the gateway connected until ctx ends (then it returns nil), or its credential is refused.
func (c *Client) Run(ctx context.Context) error {
	again := backoff.Backoff{First: cmp.Or(c.Pause, time.Second), Max: 30 * time.Second}
	refused := false
	for {
		said, err := c.connect(ctx)
		switch status := websocket.CloseStatus(err); {
		case ctx.Err() != nil:
			return nil
		case status == unauthorized && reason(err) != expired:
			if refused {
				return ErrRefused
			}
			refused = true
			continue
		case said:
			refused = false
			again.Reset()
		}
		pause := again.Next()
		c.log().Warn("not connected", "err", err, "again_in", pause)
		if !backoff.Pause(ctx, pause) {
			return nil
		}
	}
}

// reason returns the reason with which the connector closed.
func reason(err error) string {
	closed, _ := errors.AsType[websocket.CloseError](err)
	return closed.Reason
}

func (c *Client) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// Bearer returns a token that proves the gateway's identity for some minutes.
func (c *Client) Bearer() string {
	return "Bearer " + token.Mint(c.ID, c.Secret, time.Now().Add(tokenLife))
}

// connect dials, says hello and reads until the connection is lost. said is true if a frame of the connector arrived.
func (c *Client) connect(ctx context.Context) (said bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, _, err := websocket.Dial(dialing, c.URL, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {c.Bearer()}}})
	if err != nil {
		return false, fmt.Errorf("dial: %w", err)
	}
	defer conn.CloseNow() //nolint:errcheck // the connection is over either way
	conn.SetReadLimit(wire.MaxFrame)
	l := &link{conn: conn, lost: make(chan struct{}), results: make(map[relay.RequestID]chan wire.OutboundResult)}
	for _, b := range c.Identities {
		// A manifest, even an empty one, shows that this gateway is newer than those of June 2026, from which the
		// connector holds messages back for a while.
		hello := wire.Hello{Platform: b.Platform, BotID: b.ID, Manifest: append([]json.RawMessage{}, c.Manifest...), OneByOne: c.OneByOne}
		if err := c.write(ctx, l, hello); err != nil {
			return false, err
		}
	}
	c.turn(func() { c.link = l })
	defer c.turn(func() {
		c.link = nil
		close(l.lost)
	})
	var split wire.Splitter
	for {
		_, message, err := conn.Read(ctx)
		if ctx.Err() != nil {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return said, nil
		}
		if err != nil {
			return said, fmt.Errorf("read: %w", err)
		}
		lines, err := split.Feed(message)
		if err != nil {
			return said, fmt.Errorf("split: %w", err)
		}
		for _, line := range lines {
			f, err := wire.DecodeFromConnector(line)
			if err != nil {
				return said, fmt.Errorf("decode: %w", err)
			}
			if err := c.take(l, f); err != nil {
				return said, err
			}
			if !said {
				c.log().Info("connected", "url", c.URL)
			}
			said = true
		}
	}
}

// turn calls change with c.mu held, and wakes the goroutines that wait in the method when.
func (c *Client) turn(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// take handles the answer to a request, and queues every other frame for Next.
func (c *Client) take(l *link, f wire.Frame) error {
	if c.Observe != nil {
		c.observing.Lock()
		defer c.observing.Unlock()
		c.Observe(false, f)
	}
	full := false
	c.turn(func() {
		switch f := f.(type) {
		case wire.OutboundResult:
			if waits := l.results[f.ID]; waits != nil {
				delete(l.results, f.ID)
				waits <- f // does not block: the channel has room for one result, and gets one
			}
		case wire.GoingIdleAck:
			if l.idle != nil {
				close(l.idle)
				l.idle = nil
			}
		default:
			if full = len(l.queue) == maxQueue; !full {
				l.queue = append(l.queue, f)
			}
		}
	})
	if full {
		return fmt.Errorf("%d frames that nobody took", maxQueue)
	}
	return nil
}

// when waits until get, which is called with c.mu held, returns true, or ctx ends.
func (c *Client) when(ctx context.Context, get func() bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.mu.Lock()
		if get() {
			c.mu.Unlock()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Next waits for the next frame that is not the answer to a request. Its only error is that of ctx.
func (c *Client) Next(ctx context.Context) (f wire.Frame, err error) {
	err = c.when(ctx, func() bool {
		if c.link == nil || len(c.link.queue) == 0 {
			return false
		}
		f, c.link.queue = c.link.queue[0], c.link.queue[1:]
		return true
	})
	return f, err
}

// Delivery waits for the next delivery of an event, or of a forward that is a slash command. It acknowledges all other
// forwards itself, because a program could not read them. Its only error is that of ctx.
func (c *Client) Delivery(ctx context.Context) (wire.Inbound, error) {
	for {
		f, err := c.Next(ctx)
		if err != nil {
			return wire.Inbound{}, err
		}
		switch f := f.(type) {
		case wire.Inbound:
			return f, nil
		case wire.PassthroughForward:
			if in, ok := commandOf(f); ok {
				return in, nil
			}
			_ = c.Acknowledge(context.WithoutCancel(ctx), f.Buffer) // a context that ends in a write would end the connection
		}
	}
}

// Acknowledge tells the connector that the delivery was taken over. If the connection was lost it sends nothing and
// returns no error, since the delivery comes again.
func (c *Client) Acknowledge(ctx context.Context, buffer string) error {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil || buffer == "" {
		return nil
	}
	if err := c.write(ctx, l, wire.InboundAck{Buffer: buffer}); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// Ask waits for a connection and requests an action. It does not wait for the action's result.
func (c *Client) Ask(ctx context.Context, p relay.PlatformID, a relay.Action) error {
	_, _, err := c.ask(ctx, p, a)
	return err
}

// Act waits for a connection, requests an action and waits for its result. The error is the connector's
// *relay.ActionError, ErrNoLink, ErrLost, or that of ctx.
func (c *Client) Act(ctx context.Context, p relay.PlatformID, a relay.Action) (relay.Result, error) {
	l, result, err := c.ask(ctx, p, a)
	if err != nil {
		return relay.Result{}, err
	}
	select {
	case r := <-result:
		if r.Err != nil {
			return relay.Result{}, r.Err
		}
		return r.Result, nil
	case <-l.lost:
		return relay.Result{}, ErrLost
	case <-ctx.Done():
		return relay.Result{}, ctx.Err()
	}
}

// ask waits for a connection and sends a request by it. result gets the answer, unless l is lost before.
func (c *Client) ask(ctx context.Context, p relay.PlatformID, a relay.Action) (l *link, result chan wire.OutboundResult, err error) {
	var id relay.RequestID
	linking, cancel := ctx, func() {}
	if c.LinkWait > 0 {
		linking, cancel = context.WithTimeout(ctx, c.LinkWait)
	}
	defer cancel()
	err = c.when(linking, func() bool {
		if l = c.link; l == nil {
			return false
		}
		c.requests++
		id, result = relay.RequestID(strconv.Itoa(c.requests)), make(chan wire.OutboundResult, 1)
		l.results[id] = result
		return true
	})
	switch {
	case err == nil:
		err = c.write(ctx, l, wire.Outbound{Request: relay.Request{ID: id, Platform: p, Action: a}})
	default:
		err = errors.Join(ErrNoLink, ctx.Err())
	}
	return l, result, err
}

// Redial ends the connection, if there is one; Run then dials again. Requests that wait for a result get ErrLost.
func (c *Client) Redial() {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		_ = l.conn.Close(websocket.StatusNormalClosure, "") // the connection is over, with or without an error
	}
}

// GoingIdle tells the connector that the gateway ends, and waits until the connector delivers nothing more, for some
// seconds at most. Without a connection it does nothing.
func (c *Client) GoingIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idleTime)
	defer cancel()
	done := make(chan struct{})
	c.mu.Lock()
	l := c.link
	if l != nil {
		l.idle = done
	}
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	if err := c.write(ctx, l, wire.GoingIdle{}); err != nil {
		return err
	}
	select {
	case <-done:
	case <-l.lost:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// write sends one frame. After an error the connection is lost.
func (c *Client) write(ctx context.Context, l *link, f wire.Frame) error {
	line, err := wire.Encode(f)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if c.Observe != nil { // the lock lasts until Observe has the frame, so that it gets an answer to the frame later
		c.observing.Lock()
		defer c.observing.Unlock()
	}
	if err := l.conn.Write(ctx, websocket.MessageText, line); err != nil {
		return errors.Join(ErrLost, fmt.Errorf("write: %w", err))
	}
	if c.Observe != nil {
		c.Observe(true, f)
	}
	return nil
}
