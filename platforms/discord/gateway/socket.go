package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/socket"
)

const (
	// maxPayload is the largest payload that is read, in bytes. A server with every channel and role it may
	// have stays below it. A larger payload is skipped: after a close the resume would bring it again.
	maxPayload = 32 << 20
	// maxSkipped is the largest payload that is skipped.
	maxSkipped = 256 << 20
	// HeadBytes is how many bytes are kept of a payload that is skipped, or makes no sense.
	HeadBytes = 4 << 10
)

// Why this side ended a connection.
var (
	errReconnect = errors.New("asked to connect again")
	errNonsense  = errors.New("what came makes no sense")
	errRejected  = errors.New("the session was rejected for now")
	errUnknown   = errors.New("the session is no longer known")
)

// connection is one connection to the gateway. It uses no compression, which would save little (BenchmarkCompression)
// and add state that one lost byte ruins.
type connection struct {
	// Set once, by dial.
	*socket.Socket
	to    *Gateway
	nudge chan struct{} // capacity 1: one heartbeat answers any number of requests for one

	seq     atomic.Int64 // newest sequence received
	unacked atomic.Bool  // a heartbeat is unanswered
	greeted atomic.Bool  // READY or RESUMED came

	// Of the goroutine that reads.
	interval time.Duration // between heartbeats; 0 until the hello
	patience time.Time     // when READY or RESUMED must have arrived; zero until the hello
}

// Allowance implements socket.Reader: it returns how long to wait for the next payload.
func (c *connection) Allowance() time.Duration {
	switch {
	case c.interval == 0:
		return c.Wait
	case !c.greeted.Load():
		return max(time.Until(c.patience), 0)
	}
	// In every interval the answer to a heartbeat arrives. If none does, heartbeat notices before this time is over.
	return 2*c.interval + c.Wait
}

// Take implements socket.Reader. Any kind may come at any time, also before the hello.
func (c *connection) Take(ctx context.Context, raw []byte, whole bool) error {
	if !whole {
		head := decodeHead(raw)
		c.heard(head.Seq)
		return c.to.skipped(head, raw)
	}
	p, err := decodePacket(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errNonsense, err)
	}
	switch p.Op {
	case opHello:
		return c.hello(ctx, p.Data)
	case opHeartbeat:
		return c.beatNow(ctx)
	case opHeartbeatAck:
		c.unacked.Store(false)
	case opReconnect:
		return errReconnect
	case opInvalidSession:
		var resumable bool
		if _ = json.Unmarshal(p.Data, &resumable); resumable { // an unreadable value counts as no
			return errRejected
		}
		return errUnknown
	case opDispatch:
		c.heard(p.Seq)
		if p.Kind == kindReady || p.Kind == kindResumed {
			c.greeted.Store(true)
		}
		return c.to.dispatch(ctx, p)
	}
	return nil
}

// heard notes a dispatch's sequence, and puts off the deadline of READY or RESUMED: before RESUMED, Discord repeats the
// missed dispatches.
func (c *connection) heard(seq int64) {
	c.patience = time.Now().Add(c.Wait)
	c.seq.Store(max(c.seq.Load(), seq))
}

// hello starts the heartbeats and sends the identify or the resume.
func (c *connection) hello(ctx context.Context, data []byte) error {
	interval, err := decodeHello(data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: hello: %w", errNonsense, err)
	case c.interval != 0:
		return nil // once is enough
	}
	c.interval, c.patience = interval, time.Now().Add(c.Wait)
	c.Beat(interval, c.nudge, c.heartbeat)
	return c.Send(ctx, c.to.greeting())
}

// heartbeat sends a heartbeat. It returns socket.ErrZombie instead if the heartbeat before had all of its interval
// (regular) and was not answered.
func (c *connection) heartbeat(ctx context.Context, regular bool) error {
	if regular && c.unacked.Load() {
		return socket.ErrZombie
	}
	c.unacked.Store(true)
	return c.Send(ctx, heartbeat(c.seq.Load()))
}

// beatNow answers Discord's request for a heartbeat.
func (c *connection) beatNow(ctx context.Context) error {
	if c.interval == 0 { // before the hello no goroutine sends heartbeats
		return c.Send(ctx, heartbeat(c.seq.Load()))
	}
	select {
	case c.nudge <- struct{}{}:
	default: // one is asked for already
	}
	return nil
}
