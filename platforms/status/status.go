// Package status is where a bot's Run writes how the connection is, and where everybody else reads it.
package status

import (
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Tracker holds the status of one bot. Its methods may be called from any goroutine.
type Tracker struct {
	mu     sync.Mutex // guards the fields below
	status platforms.Status
	stuck  string // why what came cannot be taken in; empty when it can
}

// New makes the tracker of a bot that has not been started. name may be empty: not known yet.
func New(name string) *Tracker {
	return &Tracker{status: platforms.Status{State: platforms.Starting, Name: name, Since: time.Now()}}
}

// Get is the status now: degraded while a connection is up and nothing of what it brings can be taken in.
func (t *Tracker) Get() platforms.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	if s.State == platforms.Connected && t.stuck != "" {
		s.State, s.Reason = platforms.Degraded, t.stuck
	}
	return s
}

// Set sets the state of the connection. reason is for people, and empty when all is well.
func (t *Tracker) Set(state platforms.State, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.State != state {
		t.status.Since = time.Now()
	}
	t.status.State, t.status.Reason, t.status.RetryAt = state, relay.Shown(reason), time.Time{} // a network's words may be in it
}

// SetRetryAt says when the connection is tried again; it holds until the next Set.
func (t *Tracker) SetRetryAt(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.RetryAt = at
}

// SetStuck says why what came cannot be taken in, until it is called with an empty reason.
func (t *Tracker) SetStuck(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = relay.Shown(reason)
}

// StuckAfter is SetStuck for whoever tries to take in what came: with reason after an error, and empty after none.
func (t *Tracker) StuckAfter(reason string) func(error) {
	return func(err error) {
		if err == nil {
			t.SetStuck("")
			return
		}
		t.SetStuck(reason)
	}
}

// SetName sets the bot's name, as its network says it.
func (t *Tracker) SetName(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Name = relay.Shown(name)
}

// EventReceived notes that an event came now.
func (t *Tracker) EventReceived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.LastEventAt = time.Now()
}
