package platformtest

import (
	"context"
	"errors"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/loopback"
	"github.com/hermes-connector/hermes-connector/relay"
)

// loop is the harness of the loopback platform. wrap, when not nil, breaks the platform.
type loop struct {
	net   *loopback.Network
	log   Log
	wrap  func(h *loop, p *loopback.Platform) platforms.Platform
	place map[Place]loopback.Message
	// Of a test of a broken platform: over is closed at its end, and hangs is called where the platform
	// begins to wait for ever, which ends the check's time: nothing else would.
	over  chan struct{}
	hangs context.CancelFunc
}

func newLoop(wrap func(*loop, *loopback.Platform) platforms.Platform) *loop {
	net := loopback.NewNetwork()
	net.Appoint("park/garden", "ann")
	return &loop{net: net, wrap: wrap, over: make(chan struct{}), place: map[Place]loopback.Message{
		Direct: {},
		Group:  {Chat: "park/garden"},
		Twin:   {Chat: "yard/garden"},
		Thread: {Chat: "park/garden", Thread: "roses"},
	}}
}

func (h *loop) Open() (platforms.Platform, error) {
	p := loopback.New(h.net, h.log.Logger())
	if h.wrap != nil {
		return h.wrap(h, p), nil
	}
	return p, nil
}

func (h *loop) Say(_ context.Context, who Person, where Place, text string) error {
	m := h.place[where]
	m.User, m.Text = map[Person]relay.UserID{Ann: "ann", Bob: "bob"}[who], text
	h.net.Post(m)
	return nil
}

func (h *loop) Echo(_ context.Context, where Place, text string) error {
	m := h.place[where]
	m.User, m.Text, m.Own = loopback.Handle, text, true
	if where == Direct {
		m.Chat = "@ann"
	}
	h.net.Post(m)
	return nil
}

func (h *loop) Drop(context.Context) error   { h.net.Drop(); return nil }
func (h *loop) Revoke(context.Context) error { h.net.Revoke(); return nil }

func (h *loop) BreakNextSend(context.Context) error {
	h.net.FailNext(&relay.ActionError{Public: "timed out: the connection broke", Err: errors.New("reset by the test")})
	return nil
}

func (h *loop) Received() []Received {
	var out []Received
	for _, a := range h.net.Acts() {
		r := Received{Op: a.Op, Chat: a.Chat}
		if a.Op == relay.OpSend || a.Op == relay.OpEdit {
			r.Text = a.Text
		}
		out = append(out, r)
	}
	return out
}

func (h *loop) Credential() string { return "6Zk+ loop/back? credential==" }
func (h *loop) Logged() string     { return h.log.String() }

// TestLoopback is loopback's row of the conformance suite, and the proof that a platform can pass
// the checks that the broken ones below fail.
func TestLoopback(t *testing.T) {
	Run(t, func(*testing.T) Harness { return newLoop(nil) })
}

// TestLoopbackWithoutThreads: a network without threads passes with that part left out.
func TestLoopbackWithoutThreads(t *testing.T) {
	Run(t, func(*testing.T) Harness { return threadless{newLoop(nil)} })
}

type threadless struct{ *loop }

func (h threadless) Say(ctx context.Context, who Person, where Place, text string) error {
	if where == Thread {
		return errors.ErrUnsupported
	}
	return h.loop.Say(ctx, who, where, text)
}
