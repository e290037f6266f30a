package session

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// Handler is the owner's half of one session. A panic in any method but Pump is caught, counted, and costs that one
// frame or action.
//
// An error from Hello, Pump, Ack or GoingIdle ends the session: with the code and reason of a
// *Closed if it is one, else with 1013 "try again later".
type Handler interface {
	// Hello is called by the reader for every hello, in order, and never while GoingIdle runs. It may wait for a
	// commit and for nothing else. When it returns nil it has queued the descriptor, with Tell, and ended the flip
	// of a going_idle on the same socket.
	Hello(ctx context.Context, h wire.Hello) error

	// Pump is called once, on a goroutine of its own, after the first Hello, and may return. From then on deliveries
	// are pushed with Session.Push, on goroutines that run starts, until ctx ends, which is when the session begins to
	// end; context.Cause tells why. over is called once, after the last push, with nil if ctx ended.
	Pump(ctx context.Context, run func(func()), over func(error))

	// Ack is called by the reader, also while the connector stops and the pump is over. It may wait for a commit.
	// counted is false if the entry was not in flight; too many of those end the session.
	Ack(ctx context.Context, id relay.BufferID) (counted bool, err error)

	// GoingIdle is called on a goroutine of its own, one at a time, and may block. It returns nil once nothing more
	// will be pushed until the next hello; then the session answers. ctx ends with the socket.
	GoingIdle(ctx context.Context) error

	// Interrupt is called by the reader. It must not block. reason is nil if none was given.
	Interrupt(ctx context.Context, key relay.SessionKey, reason *string)

	// Unknown is called by the reader for an action that nobody here has heard of. It may wait for a commit.
	Unknown(ctx context.Context)

	// Action returns the action that r requests. It is called by the reader, and must not wait for a platform.
	Action(ctx context.Context, r relay.Request) Action
}

// Action is one request of the gateway on its way. The contexts of its methods end shortly before it must be answered,
// 25 s after its frame was read, and do not end with the socket.
type Action interface {
	// Line returns the chat acted on, always in the same spelling of bot and chat. Actions of one line are carried out
	// one at a time, in order.
	Line() relay.Chat

	// Allow decides whether the gateway may do it, once; an error is the answer. Only an allowed action is replaced
	// by a newer one that is alike: the older one is answered with success, which must not be a lie.
	Allow(ctx context.Context) error

	// Do is called on its line's worker after Allow returned nil. It waits until the chat's rate limit lets an action
	// leave, calls pick once, and carries out the result. The gateway reads its error as relay.Explain reduces it.
	Do(ctx context.Context, pick Pick) (relay.Result, error)
}

// Pick removes the action to carry out from its line, and returns it: the one whose Do calls it, or the newest one that
// replaced it. ctx is that action's. ok is false if the action's time is up; then nothing is done.
type Pick func() (ctx context.Context, r relay.Request, ok bool)
