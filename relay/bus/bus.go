// Package bus carries small notes between the part of the connector that owns a platform's socket and the part that
// owns a gateway's socket: "this lane grew", interrupts, revocations. It is the one seam where a second node will
// plug in, so a note has a form as bytes too.
//
// A note is a hint, never the only record of anything: what it announces is in the store already, and a subscriber
// that misses one finds out at its next look.
package bus

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Note is one of the types below.
type Note interface{ kind() string }

type (
	// LaneGrew says that the entry of that sequence was appended for an instance.
	LaneGrew struct {
		Instance relay.InstanceID `json:"instance"`
		Seq      uint64           `json:"seq,string"`
	}
	// Interrupt asks the gateway that serves Instance to stop the run of Session.
	Interrupt struct {
		Instance relay.InstanceID `json:"instance"`
		Session  relay.SessionKey `json:"session"`
		Chat     relay.ChatID     `json:"chat"`
	}
	// Changed says that somebody changed what holds for an instance.
	Changed struct {
		Instance relay.InstanceID `json:"instance"`
	}
	// Revoked says that a gateway's credential died; its sockets close with 4401.
	Revoked struct {
		Gateway relay.GatewayID `json:"gateway"`
	}
)

func (LaneGrew) kind() string  { return "grew" }
func (Interrupt) kind() string { return "interrupt" }
func (Changed) kind() string   { return "changed" }
func (Revoked) kind() string   { return "revoked" }

// Bus delivers notes. Its methods may be called from any goroutine.
type Bus interface {
	// Publish hands n to every subscriber. It does not wait for anything but their calls.
	Publish(n Note)
	// Subscribe has fn called for every note published from now on; fn must not block and must not
	// call Subscribe. cancel ends it; a call under way may still finish.
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
	b.subs = append(slices.Clone(b.subs), &fn) // Publish may be reading the old ones
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

// envelope is a note as bytes.
type envelope struct {
	Kind string          `json:"kind"`
	Note json.RawMessage `json:"note"`
}

// Encode is n as bytes.
func Encode(n Note) ([]byte, error) {
	body, err := json.Marshal(n)
	if err == nil {
		body, err = json.Marshal(envelope{n.kind(), body})
	}
	if err != nil {
		return nil, fmt.Errorf("encode note: %w", err)
	}
	return body, nil
}

// Decode is the inverse of Encode. A note of a kind that this version does not know is an error, and
// can be skipped: a note is a hint.
func Decode(b []byte) (Note, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("decode note: %w", err)
	}
	switch e.Kind {
	case LaneGrew{}.kind():
		return decode[LaneGrew](e.Note)
	case Interrupt{}.kind():
		return decode[Interrupt](e.Note)
	case Changed{}.kind():
		return decode[Changed](e.Note)
	case Revoked{}.kind():
		return decode[Revoked](e.Note)
	}
	return nil, fmt.Errorf("decode note: kind %q is unknown", e.Kind)
}

func decode[N Note](b []byte) (Note, error) {
	var n N
	if err := json.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("decode note of kind %s: %w", n.kind(), err)
	}
	return n, nil
}
