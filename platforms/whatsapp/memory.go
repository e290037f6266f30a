package whatsapp

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// remembered is how many messages and chats are remembered.
	remembered = 2000
	// maxQuoted is how many bytes of a message are remembered.
	maxQuoted = 500
)

// newest remembers recent messages: the API shows that the bot types only on a person's newest message, and names a
// quoted message without its text. Its methods may be called from any goroutine.
type newest struct {
	mu    sync.Mutex // guards the fields below
	of    map[relay.ChatID]relay.MessageID
	texts map[relay.MessageID]string
	order []relay.MessageID // of texts, oldest first
}

func newNewest() *newest {
	return &newest{of: make(map[relay.ChatID]relay.MessageID), texts: make(map[relay.MessageID]string)}
}

// heard notes a person's message.
func (n *newest) heard(chat relay.ChatID, id relay.MessageID, text string) {
	n.mu.Lock()
	if _, known := n.of[chat]; !known && len(n.of) >= remembered {
		clear(n.of) // people who write again are remembered again
	}
	n.of[chat] = id
	n.mu.Unlock()
	n.remember(id, text)
}

// remember notes the text of a message.
func (n *newest) remember(id relay.MessageID, text string) {
	if len(text) > maxQuoted {
		text = relay.Shown(text[:maxQuoted]) + "…"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.texts[id]; known {
		return
	}
	if len(n.order) >= remembered {
		delete(n.texts, n.order[0])
		n.order = n.order[1:]
	}
	n.texts[id], n.order = text, append(n.order, id)
}

// in returns a person's newest message; empty: none is remembered.
func (n *newest) in(chat relay.ChatID) relay.MessageID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[chat]
}

// text returns the text of a message; empty: it is not remembered.
func (n *newest) text(id relay.MessageID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.texts[id]
}
