// Package bus carries small notes between the part of the connector that owns a platform's
// socket and the part that owns a gateway's socket: "this lane grew", interrupts, revocations.
// It is the one seam where a second node will plug in: nothing else may assume that both
// parts live in one process.
//
// A note is a hint, never the only record of anything: what it announces is in the store
// already, and a subscriber that misses one finds out at its next look.
package bus

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Note is one of the types below.
type Note interface{ note() }

type (
	// LaneGrew says that entries were appended for an instance.
	LaneGrew struct{ Instance relay.InstanceID }
	// Interrupt asks the gateway that serves Instance to stop the turn of Session.
	Interrupt struct {
		Instance relay.InstanceID
		Session  relay.SessionKey
		Chat     relay.ChatID
	}
	// Revoked says that a gateway's credential died; its sockets close with 4401.
	Revoked struct{ Gateway relay.GatewayID }
)

func (LaneGrew) note()  {}
func (Interrupt) note() {}
func (Revoked) note()   {}

// Bus delivers notes within one process. The zero value is ready.
type Bus struct {
	mu   sync.Mutex // guards the fields below
	next int
	subs map[int]func(Note)
}

// Subscribe calls fn for every note published from now on, on the publisher's goroutine; fn
// must not block and must not call Subscribe. cancel ends it; a call under way may still finish.
func (b *Bus) Subscribe(fn func(Note)) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[int]func(Note))
	}
	id := b.next
	b.next++
	b.subs[id] = fn
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs, id)
	}
}

// Publish hands n to every subscriber before it returns.
func (b *Bus) Publish(n Note) {
	b.mu.Lock()
	fns := make([]func(Note), 0, len(b.subs))
	for _, fn := range b.subs {
		fns = append(fns, fn)
	}
	b.mu.Unlock()
	for _, fn := range fns {
		fn(n)
	}
}
