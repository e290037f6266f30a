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
	// maxTalks is how many threads are remembered that the bot takes part in, and keptTalks how many of the newest over a
	// restart: they are written with every batch.
	maxTalks  = 10_000
	keptTalks = 100
)

// state is what a restart needs to go on. It is one blob, stored as the cursor of the batch it belongs to.
type state struct {
	Base string `json:"base,omitempty"` // the API all of this is true of
	Self self   `json:"self,omitzero"`
	// Seen is the newest message dealt with; empty: none ever. Gap, when not empty, is the newest one before an
	// interruption whose messages have not all been fetched.
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

// readState decodes what an inbox kept. A state of another API than base counts for nothing.
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
	known bool // what was stored has been read
	dirty bool // it is not as it was stored last
}

func newMemory() *memory { return &memory{talks: recent.New[talk, bool](maxTalks)} }

// recall replaces the state with what was stored.
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

// change alters the state. It is stored with whatever is stored next.
func (m *memory) change(f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
	m.dirty = true
}

// blob is the state to store, with f applied; nil if it was never read: that is not written over.
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

// unsaved is the blob when something changed since it was stored, else nil.
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

// in are the newest threads of a channel that the bot takes part in.
func (m *memory) in(channel string) (roots []string) {
	for _, t := range m.read().Talks {
		if t.Channel == channel {
			roots = append(roots, t.Root)
		}
	}
	return roots
}
