package telegram

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// board is where Run writes how the connection is, and everybody else reads it.
type board struct {
	mu     sync.Mutex // guards status
	status platforms.Status
}

func newBoard() *board { return &board{status: platforms.Status{State: platforms.Starting}} }

func (b *board) read() platforms.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// is sets the state. reason is for people, and empty when all is well.
func (b *board) is(state platforms.State, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.State, b.status.Reason = state, reason
}

// named sets the bot's name.
func (b *board) named(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Name = name
}

// heard notes that updates came.
func (b *board) heard(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.LastEventAt = at
}
