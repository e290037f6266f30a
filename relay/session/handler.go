package session

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// Handler is what a session needs from its owner. One handler serves all sessions; s tells
// which. A panic in any method but Pump is caught, counted, and costs that one frame or action.
//
// An error from Hello, Pump, Ack or GoingIdle ends the session: with the code and reason of a
// *Closed if it is one, else with 1013 "try again later".
type Handler interface {
	// Hello is called by the reader for every hello, one at a time, in order, and never while
	// GoingIdle runs. It may wait for a commit and for nothing else. The descriptor it returns is
	// queued before anything a later frame causes; Pump is called after the first one is queued.
	Hello(ctx context.Context, s *Session, h wire.Hello) (relay.Descriptor, error)

	// Resume is called by the reader when the descriptor of a hello was queued, each time: a hello
	// ends the flip of a going_idle on the same socket. It must not block.
	Resume(s *Session)

	// Pump is called once, on its own goroutine, after the first descriptor was queued. It
	// pushes deliveries with s.Push until ctx ends, which happens the moment the session begins
	// to end; context.Cause tells why. It returns nil then.
	Pump(ctx context.Context, s *Session) error

	// Ack is called by the reader. It may wait for a commit. It is also called while the
	// connector stops and Pump has returned. counted is false for what was not in flight; too
	// many of those end the session.
	Ack(ctx context.Context, s *Session, id relay.BufferID) (counted bool, err error)

	// GoingIdle is called on its own goroutine, one at a time, and may block. It returns nil once
	// nothing more will be pushed until the next hello; the acknowledgement is queued then. ctx
	// ends with the socket.
	GoingIdle(ctx context.Context, s *Session) error

	// Interrupt is called by the reader. It must not block. reason is nil when none was given.
	Interrupt(ctx context.Context, s *Session, key relay.SessionKey, reason *string)

	// Line is the chat that r acts on: of every way to spell a bot and a chat the same one. It is
	// called by the reader, and must not wait for a platform. Actions of one line are carried out one
	// at a time, in order.
	Line(ctx context.Context, s *Session, r relay.Request) relay.Chat

	// May reports whether the gateway may act on r's chat; nil means that it may. It is called by a
	// chat's worker when a line of that chat's actions begins. Only from then on does a newer action
	// replace a waiting older one, which is answered with success.
	May(ctx context.Context, s *Session, r relay.Request) error

	// WaitOpen is called by a chat's worker before it picks the chat's next action, which is r
	// unless a newer one replaces it meanwhile. It blocks until the chat's rate limit lets an
	// action leave. An error is r's answer. Not called for typing and reactions, which are
	// dropped rather than queued. ctx ends shortly before r must be answered.
	WaitOpen(ctx context.Context, s *Session, r relay.Request) error

	// Do carries out r, on its chat's worker. ctx ends shortly before r must be answered,
	// 25 s after its frame was read, and does not end with the socket. Its error is reduced by
	// relay.Explain; the handler logs what is worth it.
	Do(ctx context.Context, s *Session, r relay.Request) (relay.Result, error)
}
