// Package session speaks with one gateway over one WebSocket, from upgrade to close: it reads and writes frames, keeps
// the connection alive, queues actions per chat, and answers each of them once and in time. It decides nothing: the
// gateway's credential was verified before New, and the Handler handles the frames.
//
// Invariants:
//
//  1. Nothing the session started outlives Run.
//  2. Every outbound frame that was read is answered exactly once, within 25 s, whatever the
//     handler does; unless the socket is gone, then the answer is dropped.
//  3. Actions of one chat are carried out one at a time, in the order in which they were read.
//  4. The reader never waits for a platform or for the peer; at most for a commit, and a hello for
//     the flip that was asked for before it.
//  5. Frames leave in the order they were queued; a going_idle_ack leaves behind every frame
//     pushed before the flip.
//  6. A panic costs the one frame or the one action that caused it.
//  7. Close code 4401 is sent only when the owner says so.
//  8. How much a gateway can make the session read, keep and write is bounded (limits.go), and a healthy gateway never
//     comes near the bounds.
//  9. An idle session holds no buffer, and no goroutine but its reader.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// Close codes that RFC 6455 does not define.
const (
	// CodeUnauthorized says that the credential is dead. Gateways take it as final.
	CodeUnauthorized websocket.StatusCode = 4401
	// CodeReplaced says that a newer session of the instance took over.
	CodeReplaced websocket.StatusCode = 4000
)

// The causes for which a session ends, besides *Closed and the end of Run's context.
var (
	// ErrLost: the connection broke, or stopped answering.
	ErrLost = errors.New("connection lost")
	// ErrHungUp: the gateway closed the connection. The text names its code.
	ErrHungUp = errors.New("gateway closed the connection")
	// ErrEnded is the error of Push once the session is ending.
	ErrEnded = errors.New("session ended")
	// ErrUnencodable is the error of Push for a frame without a JSON form, or larger than wire.MaxFrame.
	ErrUnencodable = errors.New("frame cannot be encoded")
)

// Closed is the cause of a session that this side ended, with the code and reason for the gateway. A handler that
// returns one from Hello, GoingIdle or Ack, or gives one to over, chooses how the session ends.
type Closed struct {
	Code   websocket.StatusCode
	Reason string // goes to the gateway; at most 123 bytes, no secrets
	Err    error  // goes to the log; may be nil
}

func (e *Closed) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("closed %d %s: %v", int(e.Code), e.Reason, e.Err)
	}
	return fmt.Sprintf("closed %d %s", int(e.Code), e.Reason)
}

func (e *Closed) Unwrap() error { return e.Err }

// Peer is the owner of the credential with which the socket was opened; nothing in a frame changes it.
type Peer struct {
	Gateway  relay.GatewayID
	Instance relay.InstanceID
	Tenant   relay.TenantID
	SecretID string     // which of the gateway's secrets was used
	Addr     netip.Addr // where it dialled from; tells a copied credential from a reconnect
	// Stock: its upgrade names Python's websockets library, with which the real gateways dial.
	Stock bool
	// Origin is the address that it dialled: scheme, host and port, without a path. It fetches files nowhere else.
	Origin string
}

// Options are a session's settings. The zero value means the defaults.
type Options struct {
	Hello time.Duration // how long a socket may live without a hello; 0 means 30 s
	Log   *slog.Logger  // nil means discard
	// Count adds one to a counter; nil means nobody counts. It may be called from any goroutine and must not block.
	Count func(count.Counter)
	// OverLimit is called once when the gateway exceeded a limit, before the gateway is told; nil means that nobody
	// wants to know. It may be called from any goroutine and must not block.
	OverLimit func()
}

// Session is one gateway's WebSocket. Call Run once; the other methods may be called from any goroutine at any time.
type Session struct {
	// Set once, by New.
	conn *Conn
	peer Peer
	h    Handler
	o    Options
	out  *outbox
	acts *actions
	// ended is closed once cause is set.
	ended chan struct{}

	owned sync.WaitGroup // the goroutines and timers for which Run waits, besides the actions

	mu    sync.Mutex // guards the fields below
	cause error      // why the session ends; nil before that, and if Run's context ended it
	end   context.CancelCauseFunc
	ping  *time.Timer // sends the next ping; set once, by Run

	// Touched by the reader only.
	split      wire.Splitter
	idle       chan struct{} // closed once the last going_idle is answered; nil: there was none
	unfinished *time.Timer   // ends the session; nil unless a frame has begun
	greeted    bool          // a hello was answered
	unheard    *time.Timer   // ends the session if no hello comes; nil after the hello
}

// New makes the session of an accepted connection. Nothing happens on conn before Run, which
// closes it.
func New(conn *Conn, peer Peer, h Handler, o Options) *Session {
	o.Hello = cmp.Or(o.Hello, helloTime)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Count == nil {
		o.Count = func(count.Counter) {}
	}
	s := &Session{conn: conn, peer: peer, h: h, o: o, out: &outbox{}, ended: make(chan struct{})}
	s.acts = newActions(s)
	return s
}

// log makes the session's logger. It is made only when there is something to log: most sessions never log.
func (s *Session) log() *slog.Logger {
	return s.o.Log.With("gateway", s.peer.Gateway, "instance", s.peer.Instance)
}

// Push queues a frame behind everything queued before. While 64 frames wait it blocks, until fewer do, ctx ends
// (its error) or the session ends (ErrEnded). ErrUnencodable: the frame can never be sent. left, unless it is nil, is
// called once if the frame was queued: after the attempt to write it, or when it was dropped unwritten.
func (s *Session) Push(ctx context.Context, f wire.Frame, left func(written bool)) error {
	line, err := encode(f)
	if err != nil {
		return err
	}
	return s.out.push(ctx, queued{line, left})
}

// encode returns f as a line. The error wraps ErrUnencodable.
func encode(f wire.Frame) ([]byte, error) {
	line, err := wire.Encode(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnencodable, err)
	case len(line) > wire.MaxFrame:
		return nil, fmt.Errorf("%w: %d bytes", ErrUnencodable, len(line))
	}
	return line, nil
}

// Tell queues a frame like Push, but never waits, for answers. A gateway that asks without ever
// reading the answers is cut off before they fill the memory. Once the session is over, the frame is dropped.
func (s *Session) Tell(f wire.Frame) {
	line, err := encode(f)
	if err != nil {
		s.endWith(&Closed{Code: websocket.StatusInternalError, Reason: "internal error", Err: err})
		return
	}
	switch err := s.out.put(queued{line: line}); {
	case errors.Is(err, ErrEnded):
		s.log().Debug("frame dropped: the session is over", "frame", fmt.Sprintf("%T", f))
	case err != nil:
		s.tooSlow()
	}
}

// Offer is Tell for a frame that the gateway can do without: it is dropped while so many frames wait that Push would
// block.
func (s *Session) Offer(f wire.Frame) {
	line, err := encode(f)
	if err == nil {
		_, err = s.out.add(queued{line: line}, outboxFull)
	}
	if err != nil {
		s.log().Debug("frame dropped", "frame", fmt.Sprintf("%T", f), "err", err)
	}
}

// End closes the session with a code and a reason. It returns at once; Run ends within seconds,
// or when the running actions have. The first cause wins.
func (s *Session) End(code websocket.StatusCode, reason string) {
	s.endWith(&Closed{Code: code, Reason: reason})
}

// endWith begins to end the session because of cause. It returns false if the end began before.
func (s *Session) endWith(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return false
	}
	s.cause = cause
	close(s.ended)
	if s.end != nil {
		s.end(cause)
	}
	return true
}

// endBy is endWith for an error a handler returned.
func (s *Session) endBy(err error) {
	c, ok := errors.AsType[*Closed](err)
	if !ok {
		c = &Closed{Code: websocket.StatusTryAgainLater, Reason: "try again later", Err: err}
	}
	s.endWith(c)
}
