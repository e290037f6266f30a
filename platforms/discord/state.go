package discord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// state is what a restart needs in order to continue. It is one blob, stored as the cursor of the batch to which it
// belongs.
type state struct {
	Base    string          `json:"base,omitempty"` // the API from which this state came; empty: Discord's
	Session gateway.Session `json:"session,omitzero"`
	// Seen is the newest message dealt with; 0: none yet. Gap, unless 0, is the newest message before an interruption
	// whose messages have not all been fetched.
	Seen   guilds.ID      `json:"seen,omitempty"`
	Gap    guilds.ID      `json:"gap,omitempty"`
	Budget gateway.Budget `json:"budget,omitzero"`
	// From READY, which a resumed session does not get again: the application's id and the bot's name.
	Application string `json:"app,omitempty"`
	Name        string `json:"name,omitempty"`
	// Commands is the fingerprint of the slash commands as last registered, and CommandsAt the end of Discord's
	// penalty on them.
	Commands   string    `json:"commands,omitempty"`
	CommandsAt time.Time `json:"commandsAt,omitzero"`
	// Threads are those the connector made, the oldest first.
	Threads []madeThread `json:"threads,omitempty"`
}

// maxThreads bounds the threads remembered: the blob is written with every batch.
const maxThreads = 100

// madeThread is a thread that the connector made, with the name that the connector gave it last.
type madeThread struct {
	ID   string `json:"id"`
	Name string `json:"name"`
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
	s.Session.Seq = max(s.Session.Seq, 0)
	if s.Session.ID == "" {
		s.Session = gateway.Session{}
	}
	return s, nil
}

func (s state) encode() []byte {
	raw, _ := json.Marshal(s) // strings, numbers and times cannot fail
	return raw
}

// memory holds the state while the program runs. Only the feeder stores it.
type memory struct {
	changed chan struct{} // capacity 1: one wake-up stands for any number of changes

	mu      sync.Mutex // guards the fields below
	state   state
	known   bool // the stored state has been read
	version int  // counts changes
	urgent  int  // the version of the last change worth a write of its own
	kept    int  // the version that is stored
}

func newMemory() *memory { return &memory{changed: make(chan struct{}, 1)} }

// recall replaces the state in memory by s, the stored one.
func (m *memory) recall(s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.known, m.kept = s, true, m.version
}

func (m *memory) read() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// change alters the state. An urgent change is stored soon, any other one with whatever is stored next.
func (m *memory) change(urgent bool, f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
	m.version++
	if urgent {
		m.urgent = m.version
		select {
		case m.changed <- struct{}{}:
		default: // a wake-up waits already
		}
	}
}

// draft returns the blob to store, with f applied, its version for keep, and whether it contains an urgent change that
// is not stored yet. Before the stored state is read there is no blob, so that nothing overwrites the stored state.
func (m *memory) draft(f func(*state)) (raw []byte, version int, owed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return nil, m.version, false
	}
	s := m.state
	f(&s)
	return s.encode(), m.version, m.urgent > m.kept
}

// keep notes that the draft of that version is stored, and applies f. Changes made in the meantime stay.
func (m *memory) keep(version int, f func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.state)
	m.kept = version
}

// wanting reports whether there is an urgent change that is not stored.
func (m *memory) wanting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urgent > m.kept
}

// unsaved returns the blob if it changed since it was stored, else nil. Before the stored state is read it returns nil,
// so that nothing overwrites the stored state.
func (m *memory) unsaved() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known || m.version == m.kept {
		return nil
	}
	return m.state.encode()
}

// Application implements commands.Keeper. Until the first READY it returns the bot's id, which nearly always equals the
// application's.
func (p *Bot) Application() string { return p.memory.application(p.bot.ID) }

// application returns the id of bot's application; until READY has named it, the bot's own id.
func (m *memory) application(bot relay.BotID) string {
	return cmp.Or(m.read().Application, string(bot))
}

func (p *Bot) Commands() (fingerprint string, notBefore time.Time) {
	s := p.memory.read()
	return s.Commands, s.CommandsAt
}

func (p *Bot) KeepCommands(fingerprint string, notBefore time.Time) {
	p.memory.change(true, func(s *state) { s.Commands, s.CommandsAt = fingerprint, notBefore.UTC().Round(0) })
}

func (p *Bot) SetCommands(manifest []json.RawMessage) { p.commands.Set(manifest) }

// createdThread reports whether the connector made a thread, and returns the name that the connector gave it last.
func (th *threads) createdThread(id string) (name string, ok bool) {
	for _, t := range th.memory.read().Threads {
		if t.ID == id {
			return t.Name, true
		}
	}
	return "", false
}

// rememberThread keeps over restarts that the connector made a thread, and its name.
func (th *threads) rememberThread(id, name string) {
	th.memory.change(true, func(s *state) {
		others := slices.DeleteFunc(slices.Clone(s.Threads), func(t madeThread) bool { return t.ID == id })
		s.Threads = append(others, madeThread{id, name})
		s.Threads = s.Threads[max(0, len(s.Threads)-maxThreads):]
	})
}

// idOf returns the "id" of an object; 0 if it has none.
func idOf(data []byte) guilds.ID {
	var o struct {
		ID guilds.ID `json:"id"`
	}
	if json.Unmarshal(data, &o) != nil {
		return 0
	}
	return o.ID
}
