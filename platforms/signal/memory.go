package signal

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// remembered is how many messages of each sort are remembered.
	remembered = 1000
	// maxQuoted is how many bytes of a message are quoted.
	maxQuoted = 500
)

// memory remembers recent messages: when the bot sent its own, since the echo of a note to self looks like one; and the
// text of others', since a quotation must contain it. Its methods may be called from any goroutine.
type memory struct {
	mu    sync.Mutex // guards the fields below
	sent  ring[int64, bool]
	texts ring[messageIn, string]
}

// messageIn is a message in its chat: gateways name messages that they answer, and must not read another chat by that.
type messageIn struct {
	chat relay.ChatID
	id   relay.MessageID
}

func newMemory() *memory {
	return &memory{sent: ring[int64, bool]{of: make(map[int64]bool)}, texts: ring[messageIn, string]{of: make(map[messageIn]string)}}
}

// ring remembers the newest values.
type ring[K comparable, V any] struct {
	of    map[K]V
	order []K // oldest first
}

func (r *ring[K, V]) put(k K, v V) {
	if _, known := r.of[k]; known {
		return
	}
	if len(r.order) == remembered {
		delete(r.of, r.order[0])
		r.order = r.order[1:]
	}
	r.of[k], r.order = v, append(r.order, k)
}

// spoke notes when the bot wrote something.
func (m *memory) spoke(at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent.put(at, true)
}

// ours reports whether the bot wrote something at that time.
func (m *memory) ours(at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent.of[at]
}

// heard notes the text of a message.
func (m *memory) heard(chat relay.ChatID, id relay.MessageID, text string) {
	if len(text) > maxQuoted {
		text = relay.Shown(text[:maxQuoted]) + "…"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts.put(messageIn{chat, id}, text)
}

// text returns the text of a message; empty: it is not remembered.
func (m *memory) text(chat relay.ChatID, id relay.MessageID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts.of[messageIn{chat, id}]
}
