// Package board is where a bot's Run writes how the connection is, and where everybody else reads it.
package board

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Board holds the status of one bot. Its methods may be called from any goroutine.
type Board struct {
	mu     sync.Mutex // guards the fields below
	status platforms.Status
	stuck  string // why what came cannot be taken in; empty when it can
}

// New makes the board of a bot that has not been started. name may be empty: not known yet.
func New(name string) *Board {
	return &Board{status: platforms.Status{State: platforms.Starting, Name: name, Since: time.Now()}}
}

// Read is the status now: degraded while a connection is up and nothing of what it brings can be taken in.
func (b *Board) Read() platforms.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	if s.State == platforms.Connected && b.stuck != "" {
		s.State, s.Reason = platforms.Degraded, b.stuck
	}
	return s
}

// Is sets the state of the connection. reason is for people, and empty when all is well.
func (b *Board) Is(state platforms.State, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.State != state {
		b.status.Since = time.Now()
	}
	b.status.State, b.status.Reason, b.status.RetryAt = state, relay.Shown(reason), time.Time{} // a network's words may be in it
}

// Retries says when the connection is tried again; it holds until the next Is.
func (b *Board) Retries(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.RetryAt = at
}

// Blocked says why what came cannot be taken in, until it is called with an empty reason.
func (b *Board) Blocked(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck = relay.Shown(reason)
}

// Named sets the bot's name, as its network says it.
func (b *Board) Named(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Name = relay.Shown(name)
}

// Heard notes that an event came now.
func (b *Board) Heard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.LastEventAt = time.Now()
}
