package discord

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// board is where Run writes how the connection is, and everybody else reads it.
type board struct {
	mu     sync.Mutex // guards the fields below
	status platforms.Status
	stuck  string // why what came cannot be taken in; empty when it can
}

func newBoard() *board { return &board{status: platforms.Status{State: platforms.Starting}} }

// read is the status now. A socket that is up is of no use while nothing of it can be stored.
func (b *board) read() platforms.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	if s.State == platforms.Connected && b.stuck != "" {
		s.State, s.Reason = platforms.Degraded, b.stuck
	}
	return s
}

// is sets the state of the socket. reason is for people, and empty when all is well.
func (b *board) is(state platforms.State, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.State, b.status.Reason = state, reason
}

// blocked says why what came cannot be taken in, until it is called with an empty reason.
func (b *board) blocked(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck = reason
}

// named sets the bot's name.
func (b *board) named(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Name = name
}

// heard notes that an event came.
func (b *board) heard(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.LastEventAt = at
}
