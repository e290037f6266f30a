package whatsapp

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// remembered is how many messages and chats are remembered.
	remembered = 2000
	// maxQuoted is how much of a message is remembered, in bytes.
	maxQuoted = 500
)

// newest is what was said lately: the API shows that the bot types only on a person's newest message, and names an answered
// message without its text. Its methods may be called from any goroutine.
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
		clear(n.of) // whoever writes again is remembered again
	}
	n.of[chat] = id
	n.mu.Unlock()
	n.says(id, text)
}

// says notes what a message says.
func (n *newest) says(id relay.MessageID, text string) {
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

// in is a person's newest message; empty: none is remembered.
func (n *newest) in(chat relay.ChatID) relay.MessageID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[chat]
}

// text is what a message says; empty: that is not remembered.
func (n *newest) text(id relay.MessageID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.texts[id]
}
