package socketmode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/socket"
)

const (
	// maxEnvelope is the largest message that is read, in bytes: a message of forty thousand characters with all its
	// blocks stays far below it. maxSkipped is the largest that is skipped, and head is how much of that is kept.
	maxEnvelope = 4 << 20
	maxSkipped  = 64 << 20
	head        = 4 << 10
	// pingEvery is how often this side asks whether the other one is still there.
	pingEvery = 20 * time.Second
	// quietFor is how long the socket may be silent: Slack itself asks to connect again every few hours.
	quietFor = 24 * time.Hour
	// lingerFor is how long a socket stays after the next one stands, so that its envelopes can still be acknowledged.
	lingerFor = 10 * time.Second
)

// Why this side ended a connection.
var (
	errNonsense = errors.New("what came makes no sense")
	errDisabled = errors.New("the app takes no sockets: Socket Mode is switched off")
	errRetired  = errors.New("the next socket stands")
)

// Envelope is one delivery of Slack.
type Envelope struct {
	ID      string
	Type    string // the type of the payload: see package slack
	Payload []byte // nil: it was too large to read
	conn    *conn
}

// Ack tells Slack that the envelope was accepted; without this Slack delivers the envelope again. Ack takes a bounded
// time. It has no effect if the envelope's socket is gone.
func (e Envelope) Ack(ctx context.Context) {
	if e.conn == nil { // made by a test
		return
	}
	if err := e.conn.Send(ctx, ack{e.ID}); err != nil {
		e.conn.HangUp(err)
	}
	e.conn.settled()
}

// conn is one connection, from the dial to its end. It is a socket.Reader.
type conn struct {
	*socket.Socket
	to      *mode
	greeted chan struct{} // closed: the hello came
	leave   chan struct{} // closed: Slack asked to connect again
	ended   chan struct{} // closed: it is over, and err says why
	err     error

	// Of the goroutine that reads.
	connections int  // how many connections the app has, according to the hello; set before greeted is closed
	leaving     bool // Slack asked to connect again

	mu      sync.Mutex // guards the fields below
	open    int        // envelopes that are not acknowledged
	retired bool       // another connection has replaced this one
	stood   bool       // it counts in mode.standing
}

// Allowance implements socket.Reader.
func (c *conn) Allowance() time.Duration {
	if c.connections == 0 {
		return c.Wait
	}
	return quietFor
}

// Take implements socket.Reader. It reads one message: Slack's greeting, its request to connect again, or an envelope.
func (c *conn) Take(ctx context.Context, raw []byte, whole bool) error {
	if !whole {
		c.to.Log.Warn("slack message skipped: too large")
		return nil // without an acknowledgement: Slack gives it up after a few more tries
	}
	s, err := decode(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errNonsense, err)
	}
	switch s.Type {
	case kindHello:
		if c.connections == 0 {
			c.connections = max(s.Connections, 1)
			c.Beat(pingEvery, nil, func(ctx context.Context, _ bool) error { return c.Ping(ctx) })
			gap := c.stands()
			close(c.greeted)
			return c.to.Handler.Up(gap) // before the first envelope
		}
	case kindDisconnect:
		if s.Reason == reasonDisabled {
			return errDisabled
		}
		if !c.leaving {
			c.leaving = true
			close(c.leave)
		}
	default:
		if s.ID == "" {
			return nil // a kind of message that is not known here, and wants no answer
		}
		c.mu.Lock()
		c.open++
		c.mu.Unlock()
		return c.to.Handler.Envelope(ctx, Envelope{ID: s.ID, Type: s.Type, Payload: s.Payload, conn: c})
	}
	return nil
}

// settled notes that the connection need not wait any more for the acknowledgement of one envelope.
func (c *conn) settled() {
	c.mu.Lock()
	c.open--
	done := c.retired && c.open == 0
	c.mu.Unlock()
	if done {
		c.HangUp(errRetired)
	}
}

// retire ends the connection once all its envelopes are acknowledged, or after lingerFor.
func (c *conn) retire() {
	c.falls()
	c.mu.Lock()
	c.retired = true
	done := c.open == 0
	c.mu.Unlock()
	if done {
		c.HangUp(errRetired)
		return
	}
	time.AfterFunc(lingerFor, func() { c.HangUp(errRetired) }) // on a connection that has ended, HangUp does nothing
}

// stands counts the socket among the standing ones, and reports whether it is the only one.
func (c *conn) stands() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood = true
	return c.to.standing.Add(1) == 1
}

// falls stops counting the connection among the standing ones: it has ended, or another one has replaced it and may be
// the only one that gets events.
func (c *conn) falls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood {
		c.stood = false
		c.to.standing.Add(-1)
	}
}

// over reports whether the connection has ended.
func (c *conn) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
