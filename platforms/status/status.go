// Package status keeps the status of a bot: the bot's Run writes it, and everybody else reads it.
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
	stuck  string // why the connector cannot take in the network's events; empty: it can
}

// New makes the tracker of a bot that has not been started. name may be empty: not known yet.
func New(name string) *Tracker {
	return &Tracker{status: platforms.Status{State: platforms.Starting, Name: name, Since: time.Now()}}
}

// Get returns the status now. It is degraded while the connection is up but the connector cannot take in the network's
// events.
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
	t.status.State, t.status.Reason, t.status.RetryAt = state, relay.Shown(reason), time.Time{} // the reason may quote the network
}

// SetRetryAt sets when the bot tries to connect again; the next Set clears it.
func (t *Tracker) SetRetryAt(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.RetryAt = at
}

// SetStuck sets why the connector cannot take in the network's events. An empty reason says that it can again.
func (t *Tracker) SetStuck(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stuck = relay.Shown(reason)
}

// StuckAfter returns a function to be called with each result of an Accept: an error sets reason as with SetStuck, nil
// clears it.
func (t *Tracker) StuckAfter(reason string) func(error) {
	return func(err error) {
		if err == nil {
			t.SetStuck("")
			return
		}
		t.SetStuck(reason)
	}
}

// SetName sets the bot's name, as its network gives it.
func (t *Tracker) SetName(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Name = relay.Shown(name)
}

// EventReceived notes that an event has just arrived.
func (t *Tracker) EventReceived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.LastEventAt = time.Now()
}
