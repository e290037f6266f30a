package media

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// hosted holds the bots whose files can be fetched.
type hosted struct {
	mu      sync.Mutex // guards the fields below
	bots    []platforms.Bot
	changes int // how often Host was called
}

// Host sets the bots whose files are fetched. A fetch that has begun continues.
func (h *hosted) Host(bots []platforms.Bot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bots = bots
	h.changes++
}

// changed returns how often Host was called.
func (h *hosted) changed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// fetcher returns the hosted bot with that id, which opens its files; nil: it is not hosted, or cannot open files.
func (h *hosted) fetcher(b relay.Bot) platforms.MediaFetcher {
	h.mu.Lock()
	bots := h.bots
	h.mu.Unlock()
	for _, p := range bots {
		if f, ok := p.(platforms.MediaFetcher); ok && p.ID() == b {
			return f
		}
	}
	return nil
}
