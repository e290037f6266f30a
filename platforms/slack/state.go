package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
)

const (
	// maxTalks is how many threads are remembered in which the bot takes part; keptTalks is how many of the newest are
	// kept over a restart, because they are written with every batch.
	maxTalks  = 10_000
	keptTalks = 100
)

// state is what a restart needs in order to continue. It is one blob, stored as the cursor of the batch to which it
// belongs.
type state struct {
	Base string `json:"base,omitempty"` // the API to which the state belongs
	Self self   `json:"self,omitzero"`
	// Seen is the timestamp of the newest message that was handed in; empty: none yet. Gap, unless empty, is the
	// timestamp of the newest message before an interruption whose messages have not all been fetched.
	Seen string `json:"seen,omitempty"`
	Gap  string `json:"gap,omitempty"`
	// Talks are the newest threads that the bot takes part in, the oldest first.
	Talks []talk `json:"talks,omitempty"`
}

// talk is a thread.
type talk struct {
	Channel string `json:"c"`
	Root    string `json:"t"`
}

// readState decodes a stored state. It ignores the state of another API than base.
func readState(raw []byte, base string) (state, error) {
	none := state{Base: base}
	if len(raw) == 0 {
		return none, nil
	}
	var s state
	if err := httpcall.Decode(raw, &s); err != nil {
		return none, fmt.Errorf("stored state: %w", err)
	}
	if s.Base != base {
		return none, nil
	}
	return s, nil
}

func (s state) encode() []byte {
	raw, _ := json.Marshal(s) // of strings: cannot fail
	return raw
}

// memory holds the state while the program runs. Only the feeder stores it.
type memory struct {
	talks *recent.Values[talk, bool] // threads that the bot takes part in; set once

	mu    sync.Mutex // guards the fields below
	state state
	known bool // the stored state has been read
	dirty bool // the state has changed since it was stored
}

func newMemory() *memory { return &memory{talks: recent.New[talk, bool](maxTalks)} }

// recall replaces the state by the stored one.
func (m *memory) recall(s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.known = s, true
	for _, t := range s.Talks {
		m.talks.Put(t, true)
	}
}

func (m *memory) read() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// change changes the state, which is stored with the next write.
func (m *memory) change(f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
	m.dirty = true
}

// blob returns the state to store, with f applied. It is nil until the stored state has been read, which must not be
// overwritten before.
func (m *memory) blob(f func(*state)) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return nil
	}
	s := m.state
	f(&s)
	return s.encode()
}

// stored notes that blob's state is stored.
func (m *memory) stored(f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
	m.dirty = false
}

// unsaved returns the blob when something changed since it was stored, else nil.
func (m *memory) unsaved() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known || !m.dirty {
		return nil
	}
	return m.state.encode()
}

// joins remembers that the bot takes part in a thread.
func (m *memory) joins(t talk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.takesPart(t) {
		return
	}
	m.talks.Put(t, true)
	kept := append(slices.Clone(m.state.Talks), t)
	m.state.Talks = kept[max(0, len(kept)-keptTalks):]
	m.dirty = true
}

// takesPart reports whether the bot is remembered to take part in a thread.
func (m *memory) takesPart(t talk) bool {
	takes, _ := m.talks.Get(t)
	return takes
}

// in returns the newest threads of a channel that the bot takes part in.
func (m *memory) in(channel string) (roots []string) {
	for _, t := range m.read().Talks {
		if t.Channel == channel {
			roots = append(roots, t.Root)
		}
	}
	return roots
}
