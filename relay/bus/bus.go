// Package bus carries small notes between the part of the connector that owns a platform's socket and the part that
// owns a gateway's socket: "this lane grew", interrupts, revocations. Both parts run on the node that leads a shard, so
// the notes stay in its process.
//
// A note is a hint, never the only record of anything: the change that it announces is in the store already, and a
// subscriber that misses one finds out at its next look.
package bus

import (
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Note is one of the types below.
type Note interface{ note() }

type (
	// LaneGrew says that the entry with the sequence Seq was appended to the lane of an instance.
	LaneGrew struct {
		Instance relay.InstanceID
		Seq      uint64
	}
	// Interrupt asks the gateway that serves Instance to stop the run of Session.
	Interrupt struct {
		Instance relay.InstanceID
		Session  relay.SessionKey
		Chat     relay.ChatID
	}
	// Changed says that somebody changed the stored settings or rights of an instance.
	Changed struct {
		Instance relay.InstanceID
	}
	// Revoked says that a gateway's credential died; its sockets close with 4401.
	Revoked struct {
		Gateway relay.GatewayID
	}
)

func (LaneGrew) note()  {}
func (Interrupt) note() {}
func (Changed) note()   {}
func (Revoked) note()   {}

// Bus delivers notes. Its methods may be called from any goroutine.
type Bus interface {
	// Publish hands n to every subscriber. It does not wait for anything but their calls.
	Publish(n Note)
	// Subscribe makes the bus call fn for every note published from now on; fn must not block and must not call
	// Subscribe. cancel ends the subscription; a call of fn under way may still finish.
	Subscribe(fn func(Note)) (cancel func())
}

// Local is a Bus within one process: a note has reached every subscriber when Publish returns. The zero
// value is ready.
type Local struct {
	mu   sync.Mutex // guards subs
	subs []*func(Note)
}

var _ Bus = (*Local)(nil)

// Subscribe implements Bus; fn is called on the publisher's goroutine.
func (b *Local) Subscribe(fn func(Note)) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs = append(slices.Clone(b.subs), &fn) // Publish may be reading the old slice
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs = slices.DeleteFunc(slices.Clone(b.subs), func(s *func(Note)) bool { return s == &fn })
	}
}

// Publish implements Bus.
func (b *Local) Publish(n Note) {
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, fn := range subs {
		(*fn)(n)
	}
}
